-- What did the ledger forecast in one round of a study ($study, $repeat)?
SELECT * FROM pred.ledger
WHERE study = $study AND repeat = $repeat
ORDER BY system, metric, subject_id, made_at, prediction_id;
