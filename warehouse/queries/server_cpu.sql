-- How much processor time do parameter servers spend on each update and on each transfer ($dnn, NULL: each)?
-- Of what all servers' programs use in an untraced step, the traced updates have theirs; the rest is shared by transfers.
WITH profiled AS (
    SELECT run_id, 1e3 * "value" AS server_cpu_ms FROM raw.sample WHERE metric = 'server_cpu_s_per_step'
),
worked AS (
    SELECT
        run_id,
        count_if(resource = 'ps' AND type LIKE '%Apply%') AS updates,
        sum(mean_us) FILTER (resource = 'ps' AND type LIKE '%Apply%') / 1e3 AS updates_ms,
        count_if(resource != 'ps') AS transfers,
        sum(size_bytes) FILTER (resource != 'ps') / 1e6 AS transfers_mb
    FROM raw.operation JOIN raw.operation_time USING (run_id, operation)
    WHERE resource IN ('ps', 'downlink', 'uplink')
    GROUP BY run_id
)
SELECT
    dnn, image_size, batch_size, servers, worker_node_type, run.backend, run.host_id,
    avg(server_cpu_ms) AS ms_per_step,
    max(updates) AS updates, avg(updates_ms / updates) AS ms_per_update,
    max(transfers) AS transfers, avg(transfers_mb) AS mb_per_step,
    avg((server_cpu_ms - updates_ms) / transfers) AS ms_per_transfer,
    avg((server_cpu_ms - updates_ms) / transfers_mb) AS ms_per_mb,
    count(*) AS runs
FROM profiled
JOIN worked USING (run_id)
JOIN raw.run AS run USING (run_id)
JOIN report.scenario USING (scenario_id)
WHERE run.status = 'ok' AND ($dnn::VARCHAR IS NULL OR dnn = $dnn) AND updates > 0 AND transfers > 0
GROUP BY ALL
ORDER BY dnn, image_size, batch_size, servers, worker_node_type, run.backend, run.host_id;
