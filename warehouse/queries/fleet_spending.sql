-- How long did runs of each node type of the fleet take since $since (NULL: ever), and what did their nodes cost?
-- usd is NULL where of some no price is known.
WITH spent AS (
    SELECT
        substr(study, length('fleet.') + 1) AS node_type, backend, host_id, epoch(ended_at - started_at) AS seconds,
        coalesce(cost_usd, seconds / 3600 * TRY_CAST(config ->> '$.usd_per_hour' AS DOUBLE)) AS usd
    FROM raw.run
    WHERE (starts_with(study, 'fleet.') OR starts_with(study, 'watch.')) AND probe != 'drift'
        AND ($since::TIMESTAMPTZ IS NULL OR started_at >= $since)
)
SELECT
    node_type, backend, host_id, sum(seconds) AS seconds,
    CASE WHEN bool_and(usd IS NOT NULL) FILTER (seconds > 0) IS NOT false THEN coalesce(sum(usd), 0) END AS usd
FROM spent
GROUP BY ALL
ORDER BY ALL;
