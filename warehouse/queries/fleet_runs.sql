-- Which runs profiled and watched the node types of the fleet in the last two visits of each kind?
-- Of a node type, or of all ($node_type NULL). Host and software are left out: they are most of what a run has.
WITH newest AS (
    SELECT study, backend, host_id, max(repeat) - 1 AS repeat
    FROM raw.run
    WHERE (starts_with(study, 'fleet.') OR starts_with(study, 'watch.')) AND probe != 'drift'
        AND ($node_type::VARCHAR IS NULL OR study IN ('fleet.' || $node_type, 'watch.' || $node_type))
    GROUP BY ALL
)
SELECT * REPLACE ('{}' AS host, '{}' AS software)
FROM raw.run
WHERE rowid IN ( -- so that of older runs nothing else is read
    SELECT run.rowid
    FROM raw.run AS run JOIN newest USING (study, backend, host_id)
    WHERE probe != 'drift' AND run.repeat >= newest.repeat
)
ORDER BY started_at, run_id;
