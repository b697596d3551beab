-- Which forecasts are in the ledger? Read on the published copy: it is never locked.
SELECT study, repeat, backend, host_id, metric, system, subject_id FROM pred.ledger;
