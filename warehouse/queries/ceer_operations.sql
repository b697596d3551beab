-- What did each kind of operation of a training step take ($dnn, $node_type; NULL: all), by what it works on?
-- Equal operations of equal steps are one row: how many a step has, and the mean of their times. Only what
-- workers compute, from profiles, which is what Ceer is fitted to.
WITH asked AS (
    SELECT run_id, dnn, image_size, batch_size, worker_node_type AS node_type, backend, host_id
    FROM visible.run JOIN report.scenario USING (scenario_id)
    WHERE ($dnn::VARCHAR IS NULL OR dnn = $dnn)
        AND ($node_type::VARCHAR IS NULL OR worker_node_type = $node_type)
),
timed AS (
    SELECT run_id, operation, mean_us, median_us, sd_us FROM raw.operation_time SEMI JOIN asked USING (run_id)
),
shaped AS (
    SELECT run_id, operation, inputs, outputs, attributes FROM raw.operation_shape SEMI JOIN asked USING (run_id)
),
profiled AS (
    SELECT dnn, image_size, batch_size, node_type, backend, host_id, count(DISTINCT run_id) AS runs
    FROM asked WHERE run_id IN (SELECT run_id FROM timed)
    GROUP BY ALL
)
SELECT
    dnn, image_size, batch_size, node_type, backend, host_id, type, device,
    inputs, outputs, attributes, input_bytes, output_bytes,
    count(*) / any_value(runs) AS "count", avg(mean_us) AS mean_us, avg(median_us) AS median_us,
    avg(sd_us) AS sd_us, any_value(runs) AS runs
FROM raw.operation
JOIN asked USING (run_id)
JOIN timed USING (run_id, operation)
LEFT JOIN shaped USING (run_id, operation)
JOIN profiled USING (dnn, image_size, batch_size, node_type, backend, host_id)
WHERE resource = 'worker'
GROUP BY
    dnn, image_size, batch_size, node_type, backend, host_id, type, device,
    inputs, outputs, attributes, input_bytes, output_bytes
ORDER BY ALL;
