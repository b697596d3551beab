-- Which operations take the most time of a run ($run_id, NULL: that of the first timing), by its timings?
WITH asked AS (
    SELECT coalesce($run_id::VARCHAR, (SELECT run_id FROM report.timing LIMIT 1)) AS run_id
),
spent AS (
    SELECT
        run_id, operation, count(*) AS timings, sum(duration_us) AS us,
        min(duration_us) AS min_us, max(duration_us) AS max_us
    FROM report.timing SEMI JOIN asked USING (run_id)
    GROUP BY run_id, operation
)
SELECT
    run_id, name, type, resource, timings, us / timings AS mean_us, min_us, max_us,
    100 * us / sum(us) OVER () AS percent
FROM spent
JOIN raw.operation USING (run_id, operation)
ORDER BY us DESC, operation
LIMIT coalesce($limit::INTEGER, 20);
