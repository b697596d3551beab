-- How long does an operation type ($type, NULL: each) take, by size of its input and node type?
SELECT
    type, device, worker_node_type, run.backend, run.host_id, input_bytes,
    median(mean_us) AS median_us, min(mean_us) AS min_us, max(mean_us) AS max_us,
    count(*) AS n, count(DISTINCT run_id) AS runs, recipe
FROM raw.operation_time
JOIN raw.operation USING (run_id, operation)
JOIN raw.run AS run USING (run_id)
LEFT JOIN report.scenario USING (scenario_id)
WHERE run.status = 'ok' AND ($type::VARCHAR IS NULL OR type = $type)
GROUP BY type, device, worker_node_type, run.backend, run.host_id, input_bytes, recipe
ORDER BY ALL;
