-- What has been measured of a study ($study), in one of its rounds ($repeat) or in all (NULL), forecast or not?
SELECT
    label, scenario_id, backend, host_id, metric, unit, value, spread_percent, n_windows, started_at,
    study, repeat, run_id
FROM report.measured
JOIN report.scenario USING (scenario_id)
WHERE ($study::VARCHAR IS NULL OR study = $study)
    AND ($repeat::INTEGER IS NULL OR repeat = $repeat)
ORDER BY study, repeat, backend, host_id, metric, label, scenario_id, started_at, run_id;
