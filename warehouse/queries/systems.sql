-- Which systems can predict, what are they, and how much has each fitted and forecast, per backend?
SELECT
    name AS system, what, source, backend,
    coalesce(fits, 0) AS fits, coalesce(predictions, 0) AS predictions
FROM pred.system
LEFT JOIN (
    SELECT system AS name, backend, sum(fits) AS fits, sum(predictions) AS predictions
    FROM (
        SELECT system, backend, 1 AS fits, 0 AS predictions FROM fit.fit
        UNION ALL
        SELECT system, backend, 0, 1 FROM pred.ledger
    )
    GROUP BY system, backend
) USING (name)
ORDER BY name, backend;
