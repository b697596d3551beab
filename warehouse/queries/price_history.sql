-- How did the price of a node type ($node_type, NULL: each) change, observed, as papers print it, or declared?
SELECT
    run.backend, price.provider, node_type, price.region, price.zone, price.market,
    price.usd_per_hour, price.observed_at, price.source,
    price.usd_per_hour - lag(price.usd_per_hour) OVER (
        PARTITION BY run.backend, price.provider, node_type, price.region, price.zone, price.market
        ORDER BY price.observed_at
    ) AS change_usd_per_hour
FROM raw.price AS price JOIN raw.run AS run USING (run_id)
WHERE ($node_type::VARCHAR IS NULL OR node_type = $node_type)
    AND ($market::VARCHAR IS NULL OR price.market = $market)
UNION ALL
SELECT
    CASE paper WHEN 'declared' THEN paper ELSE 'published' END, provider, node_type, region, NULL, market, usd_per_hour,
    make_date(observed_year, 1, 1)::TIMESTAMPTZ, paper || ', ' || place, NULL
FROM catalog.price
WHERE ($node_type::VARCHAR IS NULL OR node_type = $node_type)
    AND ($market::VARCHAR IS NULL OR market = $market)
ORDER BY node_type, provider, market, region, zone, observed_at, source;
