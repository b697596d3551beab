-- What nodes cost, by what was observed and declared.

-- Others are refused when they are imported; earlier versions took them.
CREATE MACRO report.is_price(usd_per_hour) AS usd_per_hour > 0 AND usd_per_hour <= 1e9;

-- Every node of a scenario is paid for. The newest observed price counts, else what the catalogue has.
CREATE VIEW report.hourly_cost AS
WITH observed AS (
    SELECT market, node_type, usd_per_hour, 'observed ' || observed_at::DATE AS price_source
    FROM raw.price
    WHERE report.is_price(usd_per_hour)
    QUALIFY row_number() OVER (
        PARTITION BY market, node_type ORDER BY observed_at DESC, usd_per_hour, region, zone
    ) = 1
),
price AS (
    FROM observed
    UNION ALL BY NAME
    SELECT market, node_type, usd_per_hour, paper || ', ' || place AS price_source
    FROM catalog.price ANTI JOIN observed USING (market, node_type)
),
node AS (
    SELECT
        scenario_id,
        unnest(
            from_json(canonical -> '$.nodes', '[{"node_type": "VARCHAR", "count": "INTEGER"}]'),
            recursive := true
        )
    FROM (SELECT DISTINCT scenario_id, canonical FROM raw.scenario)
),
market AS (
    SELECT unnest(['on_demand', 'spot']) AS market
)
SELECT
    scenario_id, market,
    CASE WHEN bool_and(usd_per_hour IS NOT NULL) THEN sum("count" * usd_per_hour) END AS usd_per_hour,
    string_agg(node_type, ', ' ORDER BY node_type) FILTER (usd_per_hour IS NULL) AS unpriced,
    string_agg(DISTINCT price_source, '; ' ORDER BY price_source) AS price_source
FROM node CROSS JOIN market LEFT JOIN price USING (market, node_type)
GROUP BY scenario_id, market;
COMMENT ON VIEW report.hourly_cost IS 'What an hour of a scenario costs, all its nodes together, one row per scenario and market';
COMMENT ON COLUMN report.hourly_cost.scenario_id IS 'What runs';
COMMENT ON COLUMN report.hourly_cost.market IS 'on_demand or spot';
COMMENT ON COLUMN report.hourly_cost.usd_per_hour IS 'US dollars per hour; NULL: a node type has no price';
COMMENT ON COLUMN report.hourly_cost.unpriced IS 'Node types without a price; NULL: none';
COMMENT ON COLUMN report.hourly_cost.price_source IS 'When prices were observed, or which paper prints or file declares them';

CREATE VIEW report.price AS
WITH observed AS (
    SELECT
        run.backend, provider, node_type, region, zone, market, usd_per_hour, observed_at, source,
        min(run.ended_at) FILTER (run.probe = 'prices') AS seen_at
    FROM raw.price JOIN raw.run AS run USING (run_id)
    WHERE report.is_price(usd_per_hour)
    GROUP BY ALL
)
SELECT
    backend, provider, node_type, region, zone, market, usd_per_hour, observed_at,
    greatest(observed_at, seen_at) AS known_from, source, true AS observed
FROM observed
UNION ALL
SELECT
    CASE paper WHEN 'declared' THEN paper ELSE 'published' END, provider, node_type, region, NULL, market, usd_per_hour,
    make_date(observed_year, 1, 1)::TIMESTAMPTZ,
    CASE WHEN paper != 'declared' THEN make_date(observed_year, 1, 1)::TIMESTAMPTZ END,
    paper || ', ' || place, false
FROM catalog.price;
COMMENT ON VIEW report.price IS 'All prices that are known, each once: observed, as papers print them, and declared';
COMMENT ON COLUMN report.price.backend IS 'Backend of the run that has it; published: a paper prints it; declared: a file makes it up';
COMMENT ON COLUMN report.price.provider IS 'Who rents it';
COMMENT ON COLUMN report.price.node_type IS 'Kind of machine';
COMMENT ON COLUMN report.price.region IS 'Region of the provider; NULL: the paper does not say';
COMMENT ON COLUMN report.price.zone IS 'Zone within the region; NULL: one price for the region';
COMMENT ON COLUMN report.price.market IS 'on_demand or spot';
COMMENT ON COLUMN report.price.usd_per_hour IS 'Price of one node, US dollars per hour';
COMMENT ON COLUMN report.price.observed_at IS 'When the price held, UTC; of papers and files the first day of the year';
COMMENT ON COLUMN report.price.known_from IS 'From when it counts as of a date: what we asked for, from when it was seen; NULL: declared, at any time';
COMMENT ON COLUMN report.price.source IS 'Where it was read: an API, a file, a paper';
COMMENT ON COLUMN report.price.observed IS 'Whether somebody observed it; else a paper prints or a file declares it';
