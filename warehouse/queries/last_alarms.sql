-- When did each node type change last, as a second probe confirmed?
SELECT node_type, backend, host_id, max(raised_at) AS drifted_at
FROM report.alarm
WHERE confirmed
GROUP BY node_type, backend, host_id
ORDER BY ALL;
