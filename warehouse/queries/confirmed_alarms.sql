-- Which node types changed, or were as before again (ended), as a second probe confirmed, in the order of loads?
-- changes: each metric, and by how many per cent it was worse than expected.
SELECT
    loaded.sequence, alarm.node_type, alarm.backend, alarm.host_id, alarm.raised_at,
    bool_and(alarm.outcome = 'ended') AS ended,
    list({metric: alarm.metric, worse_percent: alarm.change_percent} ORDER BY alarm.metric) AS changes
FROM report.alarm AS alarm JOIN meta.loaded AS loaded USING (run_id)
WHERE alarm.confirmed
GROUP BY ALL
ORDER BY loaded.sequence;
