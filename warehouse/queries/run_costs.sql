-- What did the nodes of each run cost an hour when it ran, and the whole run ($study, NULL: all)?
-- What the run itself says counts, else the newest price that was known when it began: observed, else of a paper.
WITH listed AS (
    SELECT
        run.run_id, run.started_at, run.config ->> '$.region' AS region,
        coalesce(run.config ->> '$.market', 'on_demand') AS market,
        unnest(
            from_json(canonical -> '$.nodes', '[{"node_type": "VARCHAR", "count": "INTEGER"}]'),
            recursive := true
        )
    FROM raw.run AS run JOIN raw.scenario USING (run_id)
),
node AS (
    SELECT run_id, started_at, region, market, node_type, sum("count") AS nodes
    FROM listed GROUP BY ALL
),
priced AS (
    SELECT node.run_id, nodes, price.usd_per_hour, price.source
    FROM node LEFT JOIN report.price AS price
        ON price.node_type = node.node_type AND price.market = node.market
        AND (price.known_from IS NULL OR price.known_from <= node.started_at)
        AND (node.region IS NULL OR price.region IS NULL OR price.region = node.region)
    QUALIFY row_number() OVER (
        PARTITION BY node.run_id, node.node_type
        ORDER BY price.observed DESC NULLS LAST, price.observed_at DESC, price.usd_per_hour, price.region, price.zone
    ) = 1
),
known AS (
    SELECT
        run_id, CASE WHEN bool_and(usd_per_hour IS NOT NULL) THEN sum(nodes * usd_per_hour) END AS usd_per_hour,
        string_agg(DISTINCT source, '; ' ORDER BY source) AS price_source
    FROM priced GROUP BY run_id
),
cost AS (
    SELECT
        run.*, epoch(run.ended_at - run.started_at) AS seconds,
        TRY_CAST(run.config ->> '$.usd_per_hour' AS DOUBLE) AS said_usd_per_hour,
        coalesce(said_usd_per_hour, known.usd_per_hour) AS usd_per_hour,
        CASE WHEN said_usd_per_hour IS NULL THEN known.price_source ELSE 'the run' END AS price_source
    FROM raw.run AS run LEFT JOIN known USING (run_id)
    WHERE run.backend != 'imported'
)
SELECT
    run_id, probe, study, repeat, backend, started_at, seconds, usd_per_hour,
    coalesce(cost_usd, seconds / 3600 * usd_per_hour) AS usd, price_source
FROM cost
WHERE $study::VARCHAR IS NULL OR study = $study
ORDER BY started_at, run_id;
