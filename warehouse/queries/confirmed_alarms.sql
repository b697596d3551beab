-- Which node types changed, or were as before again (ended), as a second probe confirmed, in the order of loads?
-- changes: each metric, and by how many per cent it was worse than expected.
WITH alarm AS MATERIALIZED (
    FROM report.alarm WHERE confirmed
)
SELECT
    loaded.sequence, alarm.node_type, alarm.backend, alarm.host_id, alarm.raised_at,
    bool_and(alarm.outcome = 'ended') AS ended,
    list({metric: alarm.metric, worse_percent: alarm.change_percent} ORDER BY alarm.metric) AS changes
FROM alarm JOIN (FROM meta.loaded WHERE run_id IN (SELECT run_id FROM alarm)) AS loaded USING (run_id)
GROUP BY ALL
ORDER BY loaded.sequence;
