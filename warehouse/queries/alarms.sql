-- Which node types ($node_type, NULL: each) seemed to have changed, when, by how much, and did a second probe find it too?
SELECT
    node_type, raised_at, metric, outcome, change_percent, robust_z, earlier_n, confirmed, value, expected, unit,
    watched, confirmed_by, backend, host_id
FROM report.alarm
WHERE $node_type::VARCHAR IS NULL OR node_type = $node_type
ORDER BY raised_at DESC, node_type, metric;
