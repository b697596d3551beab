-- What has changed since last month ($since: since then), and by more than its noise?
-- All runs from before are one side, all runs since are the other; only what is measured on both can differ.
WITH run AS (
    SELECT run_id, started_at < coalesce($since::TIMESTAMPTZ, now() - INTERVAL 1 MONTH) AS is_before
    FROM raw.run WHERE status = 'ok'
)
SELECT
    label, node_type, metric, point, base AS before, other AS since, unit, difference_percent,
    noise_percent, noise_n, noise_of, times_noise, base_runs AS runs_before, other_runs AS runs_since
FROM report.differences(
    (SELECT list(run_id) FROM run WHERE is_before), (SELECT list(run_id) FROM run WHERE NOT is_before)
)
WHERE is_larger
ORDER BY times_noise DESC NULLS FIRST, label, node_type, metric, point;
