-- How far off was each prediction of a study, or of all ($study NULL), of one metric or all?
SELECT
    accuracy.label, backend, system, metric, unit, predicted, low, high, measured, error_percent,
    spread_percent, split, host_busy, noise_floor_percent, noise_runs, study, accuracy.repeat
FROM report.accuracy AS accuracy
JOIN report.scenario AS scenario USING (scenario_id)
WHERE ($study::VARCHAR IS NULL OR study = $study)
    AND ($repeat::INTEGER IS NULL OR accuracy.repeat = $repeat)
    AND ($metric::VARCHAR IS NULL OR metric = $metric)
ORDER BY
    backend, metric, dnn, image_size, batch_size, link_mbps, workers, scenario_id, system, made_at,
    prediction_id;
