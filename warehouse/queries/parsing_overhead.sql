-- How long does a receiver work on a tensor after its last packet, by role and node type ($backend, NULL: all)?
-- Section 3.2.1 and Fig. 10 of the ICPE'20 paper: alpha x size + beta by least squares.
WITH captured_run AS (
    SELECT run_id, backend, host_id FROM raw.run
    WHERE status = 'ok' AND run_id IN (SELECT run_id FROM raw.stream)
        AND ($backend::VARCHAR IS NULL OR backend = $backend)
),
node AS (
    SELECT DISTINCT
        run_id,
        unnest(
            from_json(canonical -> '$.nodes', '[{"role": "VARCHAR", "node_type": "VARCHAR"}]'),
            recursive := true
        )
    FROM raw.scenario WHERE run_id IN (SELECT run_id FROM captured_run)
),
tensor AS (
    SELECT run_id, operation, size_bytes, role, node_type, backend, host_id
    FROM raw.operation JOIN captured_run USING (run_id) JOIN node USING (run_id)
    WHERE role = CASE resource WHEN 'downlink' THEN 'worker' WHEN 'uplink' THEN 'server' END
),
timed AS (  -- operations that transfer nothing, most of them, are left out before streams are joined
    SELECT *, start_us + duration_us AS end_us FROM raw.timing JOIN tensor USING (run_id, operation)
    WHERE run_id IN (SELECT run_id FROM captured_run)
),
stream AS (
    SELECT run_id, step, operation, arg_min(last_us, first_us) AS last_us FROM raw.stream
    WHERE operation IS NOT NULL AND run_id IN (SELECT run_id FROM captured_run)
    GROUP BY run_id, step, operation
),
traced AS (
    SELECT run_id, step, start_us FROM raw.step
    WHERE traced AND run_id IN (SELECT run_id FROM captured_run)
),
received AS (
    SELECT timed.*, (traced.start_us + timed.end_us - last_us) / 1e6 AS overhead_s
    FROM timed JOIN stream USING (run_id, step, operation) JOIN traced USING (run_id, step)
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
