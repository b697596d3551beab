-- Which profiles are from before their node type ($node_type, NULL: each) changed, as a second probe confirmed?
SELECT
    node_type, run_id, probe, study, started_at, stale_since, metric, change_percent, backend, host_id
FROM report.stale_run
WHERE $node_type::VARCHAR IS NULL OR node_type = $node_type
ORDER BY node_type, started_at DESC, run_id;
