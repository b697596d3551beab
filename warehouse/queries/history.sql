-- How did a metric of a configuration change over time ($metric, $scenario_id, $dnn; NULL: all)?
SELECT
    backend, host_id, probe, scenario.label, metric, point, history.value, history.unit, started_at,
    study, repeat, run_id, comparable_id
FROM report.history AS history
LEFT JOIN report.scenario AS scenario USING (scenario_id)
WHERE ($metric::VARCHAR IS NULL OR metric = $metric)
    AND ($scenario_id::VARCHAR IS NULL OR scenario_id = $scenario_id)
    AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
ORDER BY backend, host_id, probe, label, metric, point, comparable_id, started_at, run_id;
