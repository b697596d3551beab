-- How did the price of a node type ($node_type, NULL: each) change, observed, as papers print it, or declared?
SELECT
    backend, provider, node_type, region, zone, market, usd_per_hour, observed_at, source,
    usd_per_hour - lag(usd_per_hour) OVER (
        PARTITION BY backend, provider, node_type, region, zone, market
        ORDER BY observed_at
    ) AS change_usd_per_hour,
    known_from
FROM report.price
WHERE ($node_type::VARCHAR IS NULL OR node_type = $node_type)
    AND ($market::VARCHAR IS NULL OR market = $market)
ORDER BY node_type, provider, market, region, zone, observed_at, source;
