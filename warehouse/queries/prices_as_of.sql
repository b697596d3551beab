-- What did a node of each type ($node_type, NULL: each) cost as of a time ($as_of, NULL: now), on which market, where?
WITH known AS (
    SELECT
        provider, node_type, region, zone, market, usd_per_hour, observed_at,
        source, true AS observed
    FROM raw.price
    UNION ALL
    SELECT
        provider, node_type, region, NULL, market, usd_per_hour,
        make_date(observed_year, 1, 1)::TIMESTAMPTZ, paper || ', ' || place, false
    FROM catalog.price
)
SELECT provider, node_type, region, zone, market, usd_per_hour, observed_at, source, observed
FROM known
-- What is declared was never observed: it holds at any time.
WHERE (observed_at <= coalesce($as_of::TIMESTAMPTZ, now()) OR source LIKE 'declared, %')
    AND ($node_type::VARCHAR IS NULL OR node_type = $node_type)
    AND ($market::VARCHAR IS NULL OR market = $market)
QUALIFY row_number() OVER (
    PARTITION BY provider, node_type, region, zone, market, observed
    ORDER BY observed_at DESC, usd_per_hour, source
) = 1
ORDER BY node_type, market, provider, region, zone, observed;
