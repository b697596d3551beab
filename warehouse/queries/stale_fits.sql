-- Which fits rest on profiles from before a node type ($node_type, NULL: each) changed?
WITH seen AS (
    SELECT fit.fit_id, fit.system, fit.created_at, fit.backend, fit.host_id, unnest(fit.run_ids) AS run_id
    FROM fit.fit AS fit
)
SELECT
    fit_id, system, created_at, stale.node_type, min(stale_since) AS stale_since,
    arg_min(metric, stale_since) AS metric, arg_min(change_percent, stale_since) AS change_percent,
    count(*) AS stale_runs, seen.backend, seen.host_id
FROM seen
JOIN report.stale_run AS stale USING (run_id)
WHERE $node_type::VARCHAR IS NULL OR stale.node_type = $node_type
GROUP BY ALL
ORDER BY created_at DESC, system, fit_id, stale.node_type;
