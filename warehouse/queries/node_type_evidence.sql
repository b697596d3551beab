-- What has been measured of each node type, and by others of operators on each GPU: runs, and when the newest was?
-- node_type is NULL where others measured; device is NULL where we did.
WITH own AS (
    SELECT DISTINCT run.run_id, run.started_at, node ->> 'node_type' AS node_type
    FROM raw.run AS run
    JOIN (
        SELECT scenario_id, unnest((canonical -> '$.nodes')::JSON[]) AS node
        FROM raw.scenario
    ) AS scenario USING (scenario_id)
    WHERE run.status = 'ok' AND run.backend != 'imported'
),
others AS (
    SELECT run_id, subject ->> 'device' AS device
    FROM raw.external
    WHERE (subject ->> 'device') IS NOT NULL AND (subject ->> 'operation') IS NOT NULL
    GROUP BY ALL
)
SELECT node_type, NULL::VARCHAR AS device, count(*) AS runs, max(started_at) AS newest
FROM own
GROUP BY node_type
UNION ALL
SELECT NULL, others.device, count(*), max(run.started_at)
FROM others
JOIN raw.run AS run USING (run_id)
GROUP BY others.device
ORDER BY node_type, device;
