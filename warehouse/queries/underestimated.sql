-- Which predictions were too hopeful, and by how much, of $system or of all (NULL)?
SELECT
    system, backend, host_id, label, metric, unit, predicted, low, high, measured,
    -time_error_percent AS underestimated_percent, split, inside_interval, host_busy, study, repeat
FROM report.accuracy
WHERE time_error_percent < 0 AND ($system::VARCHAR IS NULL OR system = $system)
ORDER BY underestimated_percent DESC, system, label, metric, prediction_id;
