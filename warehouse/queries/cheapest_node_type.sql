-- Which node type trains a million examples of a DNN ($dnn, NULL: each) for the least, as measured?
-- Prices: the newest observed in $market (NULL: on_demand), else the papers'. All nodes of a scenario
-- are paid for; usd_per_million_examples is NULL where one of them has no price (unpriced).
WITH observed AS (
    SELECT node_type, usd_per_hour, 'observed ' || observed_at::DATE AS price_source
    FROM raw.price
    WHERE market = coalesce($market::VARCHAR, 'on_demand')
    QUALIFY row_number() OVER (
        PARTITION BY node_type ORDER BY observed_at DESC, usd_per_hour, region, zone
    ) = 1
),
price AS (
    FROM observed
    UNION ALL BY NAME
    SELECT node_type, usd_per_hour, paper || ', ' || place AS price_source
    FROM catalog.price ANTI JOIN observed USING (node_type)
    WHERE market = coalesce($market::VARCHAR, 'on_demand')
),
node AS (
    SELECT DISTINCT
        scenario_id,
        unnest(
            from_json(canonical -> '$.nodes', '[{"node_type": "VARCHAR", "count": "INTEGER"}]'),
            recursive := true
        )
    FROM (SELECT DISTINCT scenario_id, canonical FROM raw.scenario)
),
hour AS (
    SELECT
        scenario_id,
        CASE WHEN bool_and(usd_per_hour IS NOT NULL) THEN sum("count" * usd_per_hour) END
            AS usd_per_hour,
        string_agg(node_type, ', ' ORDER BY node_type) FILTER (usd_per_hour IS NULL) AS unpriced,
        string_agg(DISTINCT price_source, '; ' ORDER BY price_source) AS price_source
    FROM node LEFT JOIN price USING (node_type)
    GROUP BY scenario_id
),
speed AS (
    SELECT scenario_id, backend, host_id, avg(value) AS steps_per_s, count(*) AS runs
    FROM report.measured
    WHERE metric = 'throughput_steps_per_s'
    GROUP BY scenario_id, backend, host_id
)
SELECT
    dnn, image_size, batch_size, worker_node_type, workers, link_mbps, backend, host_id,
    steps_per_s * batch_size AS examples_per_s, usd_per_hour,
    1e6 / (steps_per_s * batch_size) / 3600 * usd_per_hour AS usd_per_million_examples,
    unpriced, price_source, runs, scenario_id
FROM speed
JOIN report.scenario USING (scenario_id)
JOIN hour USING (scenario_id)
WHERE $dnn::VARCHAR IS NULL OR dnn = $dnn
ORDER BY dnn, image_size, backend, usd_per_million_examples NULLS LAST, examples_per_s DESC, scenario_id;
