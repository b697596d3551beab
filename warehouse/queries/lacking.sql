-- Which types lack what ($since: or have not had it since then)?
-- Types and probes are those that the history has on a backend, so what nobody has ever run is not missed.
WITH run AS (
    SELECT backend, node_type, probe, run_id, started_at
    FROM raw.run JOIN report.configuration USING (run_id)
    WHERE purpose = 'profile' AND node_type IS NOT NULL AND node_type NOT LIKE '%+%'
),
profiled AS (
    SELECT backend, node_type, probe, count(*) AS runs, max(started_at) AS last_profiled_at
    FROM run GROUP BY ALL
),
pair AS (
    SELECT backend, node_type, probe
    FROM (SELECT DISTINCT backend, node_type FROM run) JOIN (SELECT DISTINCT backend, probe FROM run) USING (backend)
)
SELECT
    backend, node_type, probe, last_profiled_at,
    date_diff('day', last_profiled_at, now()) AS days_ago, coalesce(runs, 0) AS runs
FROM pair LEFT JOIN profiled USING (backend, node_type, probe)
WHERE last_profiled_at IS NULL OR last_profiled_at < $since::TIMESTAMPTZ
ORDER BY last_profiled_at NULLS FIRST, backend, node_type, probe;
