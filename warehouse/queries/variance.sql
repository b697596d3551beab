-- How much do passes, iterations and links vary, from moment to moment and between clusters ($backend, NULL: each)?
-- One row per node type and network at each batch, per scenario that trained, and per direction and number of flows
-- of a link. temporal_percent: standard deviation over mean between the trials of a run (the first worker's steps),
-- the mean over runs. spatial_percent: how much larger the mean of the largest run is than that of the smallest;
-- every run makes its nodes anew (Srift, section 2). hours: from the first run to the last.
WITH trial AS (
    SELECT
        run_id, worker_node_type AS node_type, NULL::DOUBLE AS link_mbps,
        concat_ws(
            ', ',
            CASE image_size
                WHEN 0 THEN format('{}, {} examples', dnn, compute.batch_size)
                ELSE format('{} {}px, {} images', dnn, image_size, compute.batch_size)
            END,
            nullif(recipe, ''), CASE strategy WHEN 'single' THEN strategy END
        ) AS what,
        'compute_s' AS metric, forward_s + backward_s AS value
    FROM raw.compute JOIN raw.run USING (run_id) JOIN report.scenario USING (scenario_id)
    WHERE status = 'ok'
    UNION ALL
    SELECT
        run_id, worker_node_type, link_mbps, label, 'iteration_s', (end_us - start_us) / 1e6
    FROM raw.step JOIN raw.run USING (run_id) JOIN report.scenario USING (scenario_id)
    WHERE status = 'ok' AND purpose = 'measurement' AND worker = 0 AND NOT traced AND "window" IS NOT NULL
    UNION ALL
    SELECT
        run_id, NULL, (any_value(config) ->> '$.link_mbps')::DOUBLE,
        format('{}, {} flows', direction, flows), 'bandwidth_Bps', sum("bandwidth_Bps")
    FROM raw.link JOIN raw.run USING (run_id)
    WHERE status = 'ok'
    GROUP BY run_id, direction, flows, trial
),
run AS (
    SELECT
        run_id, node_type, link_mbps, what, metric, avg(value) AS mean,
        stddev_samp(value) / avg(value) AS variation, count(*) AS trials
    FROM trial GROUP BY ALL
)
SELECT
    backend, host_id, metric, node_type, link_mbps, what, avg(mean) AS mean,
    100 * avg(variation) AS temporal_percent,
    CASE WHEN count(*) > 1 THEN 100 * (max(mean) / min(mean) - 1) END AS spatial_percent,
    count(*) AS runs, sum(trials)::BIGINT AS trials,
    date_diff('second', min(started_at), max(started_at)) / 3600 AS hours
FROM run JOIN raw.run AS probed USING (run_id)
WHERE $backend::VARCHAR IS NULL OR backend = $backend
GROUP BY backend, host_id, metric, node_type, link_mbps, what
ORDER BY ALL;
