-- Which operation types take the most time of a step of a DNN ($dnn, NULL: each), per node type?
-- Statistics of operations where a run has them, else its traced steps.
WITH asked AS (
    SELECT run_id, backend, host_id, dnn, batch_size, worker_node_type
    FROM raw.run JOIN report.scenario USING (scenario_id)
    WHERE status = 'ok' AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
),
traced AS (
    SELECT run_id, operation, avg(duration_us) AS mean_us
    FROM raw.timing
    WHERE run_id IN (SELECT run_id FROM asked)
    GROUP BY run_id, operation
),
timed AS (
    SELECT run_id, operation, mean_us FROM raw.operation_time
    UNION ALL
    FROM traced ANTI JOIN raw.operation_time USING (run_id)
),
spent AS (
    SELECT run_id, type, resource, sum(mean_us) AS us, count(*) AS operations
    FROM timed JOIN raw.operation USING (run_id, operation)
    GROUP BY run_id, type, resource
)
SELECT
    dnn, batch_size, worker_node_type, backend, host_id, type, resource,
    avg(us) / 1000 AS ms_per_step,
    100 * avg(us) / sum(avg(us)) OVER (
        PARTITION BY dnn, batch_size, worker_node_type, backend, host_id
    ) AS percent,
    max(operations) AS operations, count(*) AS runs
FROM spent JOIN asked USING (run_id)
GROUP BY dnn, batch_size, worker_node_type, backend, host_id, type, resource
ORDER BY dnn, batch_size, worker_node_type, backend, host_id, ms_per_step DESC, type, resource
LIMIT coalesce($limit::INTEGER, 100);
