-- How much training do k nodes of a type buy, in a second and for a dollar, and which types are dominated?
-- One row per synchronous scenario measured on nodes of one type ($dnn, NULL: each), at the prices of $market
-- (NULL: on_demand). weak_percent: throughput of a node, beside that of the smallest world at this batch per device.
-- strong_speedup: throughput, beside that of the smallest world with this global batch. dominated_by: types of which
-- as many nodes, with batches as large, train both faster and for less (Srift, section 3).
WITH speed AS (
    SELECT
        dnn, framework, image_size, batch_size, link_mbps, worker_node_type, workers, devices_per_node,
        backend, host_id, scenario_id, recipe, accumulate,
        avg(value) AS step_s, count(*) AS runs
    FROM report.measured JOIN report.scenario USING (scenario_id)
    WHERE metric = 'step_time_s' AND strategy = 'all_reduce'
        AND worker_mix = format('{} {}', workers, worker_node_type)
        AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
    GROUP BY ALL
),
point AS (
    SELECT
        * EXCLUDE (unpriced, price_source, market),
        workers * devices_per_node * batch_size * accumulate AS global_batch,
        global_batch / step_s AS examples_per_s,
        3600 * examples_per_s / usd_per_hour AS examples_per_usd,
        100 * (examples_per_s / workers) / first(examples_per_s / workers) OVER weak AS weak_percent,
        examples_per_s / first(examples_per_s) OVER strong AS strong_speedup
    FROM speed JOIN report.hourly_cost USING (scenario_id)
    WHERE market = coalesce($market, 'on_demand')
    WINDOW
        weak AS (
            PARTITION BY dnn, framework, image_size, batch_size, link_mbps, worker_node_type,
                devices_per_node, backend, host_id, recipe
            ORDER BY workers
        ),
        strong AS (
            PARTITION BY dnn, framework, image_size, global_batch, link_mbps, worker_node_type,
                devices_per_node, backend, host_id, recipe
            ORDER BY workers
        )
),
better AS (
    SELECT
        one.scenario_id, one.backend, one.host_id,
        string_agg(other.worker_node_type, ', ' ORDER BY other.worker_node_type) AS dominated_by
    FROM point AS one JOIN point AS other USING (
        dnn, framework, image_size, batch_size, workers, devices_per_node, backend, host_id, recipe
    )
    WHERE one.link_mbps IS NOT DISTINCT FROM other.link_mbps
        AND other.examples_per_s > one.examples_per_s
        AND other.examples_per_usd > one.examples_per_usd
    GROUP BY ALL
)
SELECT
    dnn, framework, image_size, link_mbps, worker_node_type, batch_size, workers, devices_per_node,
    global_batch, backend, host_id, examples_per_s, usd_per_hour, examples_per_usd,
    weak_percent, strong_speedup, dominated_by, runs, scenario_id, recipe
FROM point LEFT JOIN better USING (scenario_id, backend, host_id)
ORDER BY ALL;
