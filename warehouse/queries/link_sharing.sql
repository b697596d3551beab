-- How do simultaneous flows share a link, per direction and number of flows (on $backend, NULL: all)?
WITH trial AS (
    SELECT
        run_id, direction, flows, trial,
        sum("bandwidth_Bps") AS total,
        max("bandwidth_Bps") AS largest, min("bandwidth_Bps") AS smallest,
        sum(retransmits) AS retransmits
    FROM raw.link GROUP BY run_id, direction, flows, trial
)
SELECT
    backend, host_id, (config ->> '$.link_mbps')::DOUBLE AS link_mbps, direction, flows,
    8e-6 * avg(total) AS total_mbps,
    100 * avg(largest / total) AS largest_share_percent,
    100 * avg(smallest / total) AS smallest_share_percent,
    100.0 / flows AS equal_share_percent,
    avg(retransmits) AS retransmits, count(*) AS trials
FROM trial JOIN raw.run USING (run_id)
WHERE status = 'ok' AND ($backend::VARCHAR IS NULL OR backend = $backend)
GROUP BY ALL
ORDER BY backend, host_id, link_mbps, direction, flows;
