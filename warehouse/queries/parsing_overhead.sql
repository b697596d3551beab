-- How long does a receiver work on a tensor after its last packet, by role and node type ($backend, NULL: all)?
-- Section 3.2.1 and Fig. 10 of the ICPE'20 paper: alpha x size + beta by least squares. The fits of system
-- async_sgd_overhead in fit.fit have intervals too.
WITH timed AS (
    FROM report.timing SEMI JOIN raw.stream USING (run_id)  -- few large runs have streams
),
node AS (
    SELECT
        run_id,
        unnest(
            from_json(canonical -> '$.nodes', '[{"role": "VARCHAR", "node_type": "VARCHAR"}]'),
            recursive := true
        )
    FROM raw.scenario
),
received AS (
    SELECT
        run_id, run.backend, run.host_id, node.role, node.node_type, operation.size_bytes,
        (step.start_us + timed.start_us + timed.duration_us - stream.last_us) / 1e6 AS overhead_s
    FROM raw.stream AS stream
    JOIN raw.run AS run USING (run_id)
    JOIN raw.operation AS operation USING (run_id, operation)
    JOIN timed USING (run_id, step, operation)
    JOIN raw.step AS step USING (run_id, step)
    JOIN node USING (run_id)
    WHERE step.traced AND run.status = 'ok' AND ($backend::VARCHAR IS NULL OR run.backend = $backend)
        AND node.role = CASE stream.direction WHEN 'downlink' THEN 'worker' ELSE 'server' END
    QUALIFY row_number() OVER (
        PARTITION BY run_id, stream.step, operation.operation, node.node_type ORDER BY stream.first_us
    ) = 1
)
SELECT
    role, node_type, backend, host_id,
    1e9 * regr_slope(overhead_s, size_bytes) AS alpha_ns_per_byte,
    1e3 * regr_intercept(overhead_s, size_bytes) AS beta_ms,
    regr_r2(overhead_s, size_bytes) AS r_squared,
    1e3 * median(overhead_s) AS median_ms, 1e3 * quantile_cont(overhead_s, 0.95) AS p95_ms,
    count(*) AS n, count(DISTINCT run_id) AS runs
FROM received
GROUP BY role, node_type, backend, host_id
ORDER BY ALL;
