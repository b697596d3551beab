-- What did the ledger forecast, in one round of a study ($study, $repeat) or in all (NULL)?
SELECT * FROM pred.ledger
WHERE ($study::VARCHAR IS NULL OR study = $study)
    AND ($repeat::INTEGER IS NULL OR repeat = $repeat)
ORDER BY system, metric, subject_id, made_at, prediction_id;
