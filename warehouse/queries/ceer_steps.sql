-- How long does a training step take, untraced ($dnn, $node_type; NULL: all), per number of workers and link?
-- One row per run of a profile. Parameters are those that table dnn says of images of that size, else the bytes
-- that a worker receives in a step, four for each. A device that trains alone, without servers, has no link. Only
-- training in float32 by plain SGD, which is what Ceer knows.
WITH received AS (
    SELECT run_id, sum(size_bytes) AS bytes FROM visible.operation
    WHERE resource = 'downlink' GROUP BY run_id
),
counted AS (
    SELECT dnn, image_size, max(parameter_count) AS parameter_count
    FROM visible.dnn GROUP BY dnn, image_size
)
SELECT
    dnn, image_size, batch_size, strategy, worker_node_type AS node_type,
    workers * devices_per_node AS devices,
    workers * devices_per_node > 1 OR probe IN ('tf_sync', 'torch_throughput') AS distributed,
    CASE WHEN strategy <> 'all_reduce' OR workers * devices_per_node > 1 THEN link_mbps END AS link_mbps,
    coalesce(counted.parameter_count, received.bytes // 4) AS parameter_count,
    avg("value") AS step_s, backend, host_id, run_id
FROM visible.run
JOIN report.scenario USING (scenario_id)
JOIN visible.sample USING (run_id)
LEFT JOIN received USING (run_id)
LEFT JOIN counted USING (dnn, image_size)
WHERE metric = 'step_time_s' AND "value" IS NOT NULL AND recipe = ''
    AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
    AND ($node_type::VARCHAR IS NULL OR worker_node_type = $node_type)
GROUP BY ALL
ORDER BY ALL;
