-- Which forecasts of a study ($study) were published before their scenarios were measured, and how wrong was each?
SELECT * FROM report.sealed_accuracy
WHERE $study::VARCHAR IS NULL OR study = $study
ORDER BY study, system, metric, label, scenario_id, sealed_at, prediction_id;
