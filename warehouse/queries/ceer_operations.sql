-- What did each kind of operation of a training step take ($dnn, $node_type; NULL: all), by what it works on?
-- Equal operations of equal steps are one row: how many a step has, and the mean of their times. Only what
-- workers compute, from profiles, which is what Ceer is fitted to. Operations that were traced at full speed take
-- as much longer at their node's share as untraced steps did. Only training in float32 by plain SGD.
WITH asked AS (
    SELECT
        run_id, scenario_id, dnn, image_size, batch_size, strategy, worker_node_type AS node_type,
        backend, host_id
    FROM visible.run JOIN report.scenario USING (scenario_id)
    WHERE recipe = '' AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
        AND ($node_type::VARCHAR IS NULL OR worker_node_type = $node_type)
        AND run_id IN (SELECT DISTINCT run_id FROM raw.operation_time)
),
-- Nearly all runs of a scenario have the same graph. Times of those are averaged operation by operation, and only
-- the graph of one of them is looked at: joining every time with its shape would take several times as long.
described AS (
    SELECT run_id, bit_xor(hash(operation, type, resource, device, input_bytes, output_bytes)) AS mark
    FROM raw.operation SEMI JOIN asked USING (run_id) GROUP BY run_id
),
shaped AS (
    SELECT run_id, bit_xor(hash(operation, inputs, outputs, attributes)) AS mark
    FROM raw.operation_shape SEMI JOIN asked USING (run_id) GROUP BY run_id
),
graph AS (
    SELECT
        run_id, dense_rank() OVER (
            ORDER BY scenario_id, backend, host_id, described.mark, shaped.mark
        ) AS graph
    FROM asked JOIN described USING (run_id) LEFT JOIN shaped USING (run_id)
),
pace AS (
    SELECT
        run_id, avg("value") FILTER (metric = 'step_time_s')
            / avg("value") FILTER (metric = 'unconfined_step_time_s') AS slower
    FROM raw.sample SEMI JOIN asked USING (run_id) GROUP BY run_id
),
traced AS (
    SELECT run_id, graph, coalesce(slower, 1) AS slower FROM graph LEFT JOIN pace USING (run_id)
),
spent AS (
    SELECT
        graph, operation, count(*) AS n, sum(mean_us * slower) AS mean_us,
        sum(median_us * slower) AS median_us, sum(sd_us * slower) AS sd_us
    FROM raw.operation_time JOIN traced USING (run_id)
    GROUP BY graph, operation
),
example AS (
    SELECT graph, min(run_id) AS run_id FROM graph GROUP BY graph
),
computed AS (
    SELECT graph, run_id, operation, type, device, input_bytes, output_bytes
    FROM raw.operation JOIN example USING (run_id) WHERE resource = 'worker'
),
worked_on AS (
    SELECT graph, operation, inputs, outputs, attributes
    FROM raw.operation_shape JOIN example USING (run_id)
),
step AS (
    SELECT
        run_id, dnn, image_size, batch_size, strategy, node_type, backend, host_id,
        count(*) OVER (
            PARTITION BY dnn, image_size, batch_size, strategy, node_type, backend, host_id
        ) AS runs
    FROM asked
)
SELECT
    dnn, image_size, batch_size, strategy, node_type, backend, host_id, type, device,
    inputs, outputs, attributes, input_bytes, output_bytes,
    sum(n) / any_value(runs) AS "count", sum(mean_us) / sum(n) AS mean_us,
    sum(median_us) / sum(n) AS median_us, sum(sd_us) / sum(n) AS sd_us, any_value(runs) AS runs
FROM spent
JOIN computed USING (graph, operation)
LEFT JOIN worked_on USING (graph, operation)
JOIN step USING (run_id)
GROUP BY
    dnn, image_size, batch_size, strategy, node_type, backend, host_id, type, device,
    inputs, outputs, attributes, input_bytes, output_bytes
ORDER BY ALL;
