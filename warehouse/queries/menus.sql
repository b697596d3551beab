-- What was forecast of each scenario before it was measured, and what was measured then?
-- Only while the host was not busy, and training in float32 by plain SGD; usd_per_hour: of all nodes, on demand.
WITH first AS (
    SELECT prediction_id, min(started_at) AS measured_at
    FROM report.judged JOIN raw.run USING (run_id) GROUP BY prediction_id
),
known AS (
    SELECT scenario_id, any_value(canonical)::VARCHAR AS canonical FROM raw.scenario GROUP BY scenario_id
)
SELECT
    study, repeat, accuracy.backend, host_id, framework, strategy, dnn, image_size, batch_size, link_mbps,
    scenario_id, scenario.label, canonical, system, metric, split, predicted, measured, usd_per_hour, measured_at
FROM report.accuracy AS accuracy
JOIN first USING (prediction_id)
JOIN report.scenario AS scenario USING (scenario_id)
JOIN known USING (scenario_id)
JOIN report.hourly_cost AS cost USING (scenario_id)
WHERE market = 'on_demand' AND usd_per_hour > 0 AND predicted > 0 AND measured > 0
    AND cross_traffic IS NULL AND transfer_order = 'framework' AND placement = 'round_robin'
    AND worker_node_type NOT LIKE '%+%' AND (metric = 'step_time_s' OR metric = 'throughput_steps_per_s')
    AND recipe = '' AND NOT host_busy AND ($study::VARCHAR IS NULL OR study = $study)
ORDER BY study, repeat, host_id, framework, strategy, dnn, image_size, batch_size, link_mbps, scenario_id, system;
