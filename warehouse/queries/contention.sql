-- What does each of n transfers of training get of a link, by seniority and by how many go the other way (on $backend, NULL: all)?
WITH probed AS (
    SELECT
        backend, host_id, (config ->> '$.link_mbps')::DOUBLE AS link_mbps,
        config ->> '$.worker' AS worker, direction, flows, opposite, place,
        8e-6 * sum(bytes) / sum(seconds) AS mbps, sum(seconds) AS seconds
    FROM raw.contention JOIN raw.run USING (run_id)
    WHERE status = 'ok' AND ($backend::VARCHAR IS NULL OR backend = $backend)
    GROUP BY ALL
)
SELECT
    * EXCLUDE seconds,
    100 * mbps / sum(mbps) OVER (
        PARTITION BY backend, host_id, link_mbps, worker, direction, flows, opposite
    ) AS share_percent,
    100.0 / flows AS equal_share_percent, seconds
FROM probed
ORDER BY backend, host_id, link_mbps, worker, direction, flows, opposite, place;
