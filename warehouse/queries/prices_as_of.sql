-- What did a node of each type ($node_type, NULL: each) cost as of a time ($as_of, NULL: now), on which market, where?
SELECT provider, node_type, region, zone, market, usd_per_hour, observed_at, source, observed
FROM report.price
-- What is declared was never observed: it holds at any time. What we asked for counts from when it was seen.
WHERE (known_from IS NULL OR known_from <= coalesce($as_of::TIMESTAMPTZ, now()))
    AND ($node_type::VARCHAR IS NULL OR node_type = $node_type)
    AND ($market::VARCHAR IS NULL OR market = $market)
QUALIFY row_number() OVER (
    PARTITION BY provider, node_type, region, zone, market, observed
    ORDER BY observed_at DESC, usd_per_hour, source
) = 1
ORDER BY node_type, market, provider, region, zone, observed;
