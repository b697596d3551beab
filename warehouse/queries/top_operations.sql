-- Which operation types take the most time of a step of a DNN ($dnn, NULL: each), per node type?
-- Reads the statistics of operations, not each timing: every traced run has them.
WITH asked AS (
    SELECT run_id, backend, host_id, dnn, batch_size, worker_node_type, recipe
    FROM raw.run JOIN report.scenario USING (scenario_id)
    WHERE status = 'ok' AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
),
spent AS (
    SELECT run_id, type, resource, sum(mean_us) AS us, count(*) AS operations
    FROM raw.operation_time JOIN raw.operation USING (run_id, operation)
    GROUP BY run_id, type, resource
)
SELECT
    dnn, batch_size, worker_node_type, backend, host_id, type, resource,
    avg(us) / 1000 AS ms_per_step,
    100 * avg(us) / sum(avg(us)) OVER (
        PARTITION BY dnn, batch_size, worker_node_type, backend, host_id, recipe
    ) AS percent,
    max(operations) AS operations, count(*) AS runs, recipe
FROM spent JOIN asked USING (run_id)
GROUP BY dnn, batch_size, worker_node_type, backend, host_id, recipe, type, resource
ORDER BY dnn, batch_size, worker_node_type, backend, host_id, recipe, ms_per_step DESC, type, resource
LIMIT coalesce($limit::INTEGER, 100);
