-- Which node type trains a million examples of a DNN ($dnn, NULL: each) for the least, as measured?
-- Prices: the newest observed in $market (NULL: on_demand), else the catalogue's. All nodes of a scenario
-- are paid for; usd_per_million_examples is NULL where one of them has no price (unpriced).
WITH speed AS (
    SELECT scenario_id, backend, host_id, avg(value) AS steps_per_s, count(*) AS runs
    FROM report.measured
    WHERE metric = 'throughput_steps_per_s'
    GROUP BY scenario_id, backend, host_id
)
SELECT
    dnn, image_size, batch_size, worker_node_type, workers, worker_mix, link_mbps, cross_traffic,
    transfer_order, servers, placement, backend, host_id,
    steps_per_s * batch_size AS examples_per_s, usd_per_hour,
    1e6 / (steps_per_s * batch_size) / 3600 * usd_per_hour AS usd_per_million_examples,
    unpriced, price_source, runs, scenario_id
FROM speed
JOIN report.scenario USING (scenario_id)
JOIN report.hourly_cost USING (scenario_id)
WHERE market = coalesce($market, 'on_demand') AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
ORDER BY dnn, image_size, backend, usd_per_million_examples NULLS LAST, examples_per_s DESC, scenario_id;
