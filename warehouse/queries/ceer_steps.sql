-- How long does a training step take, untraced ($dnn, $node_type; NULL: all), per number of workers and link?
-- One row per run of a profile. Parameters are those that table dnn says, else the bytes that a worker
-- receives in a step, four for each.
WITH received AS (
    SELECT run_id, sum(size_bytes) AS bytes FROM visible.operation
    WHERE resource = 'downlink' GROUP BY run_id
),
counted AS (
    SELECT dnn, max(parameter_count) AS parameter_count FROM visible.dnn GROUP BY dnn
)
SELECT
    dnn, image_size, batch_size, worker_node_type AS node_type, workers AS devices, link_mbps,
    coalesce(counted.parameter_count, received.bytes // 4) AS parameter_count,
    avg("value") AS step_s, backend, host_id, run_id
FROM visible.run
JOIN report.scenario USING (scenario_id)
JOIN visible.sample USING (run_id)
LEFT JOIN received USING (run_id)
LEFT JOIN counted USING (dnn)
WHERE metric = 'step_time_s' AND "value" IS NOT NULL
    AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
    AND ($node_type::VARCHAR IS NULL OR worker_node_type = $node_type)
GROUP BY ALL
ORDER BY ALL;
