-- What providers say of node types, and which prices were known when. A price that we asked for counts from when the
-- answer was there, whenever it began: so the answer to a question as of a date stays as it was, whatever is seen later.
CREATE TABLE raw.instance_type (
    run_id VARCHAR NOT NULL,
    provider VARCHAR NOT NULL,
    node_type VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    vcpus INTEGER NOT NULL,
    memory_bytes BIGINT NOT NULL,
    device_count SMALLINT NOT NULL,
    device_name VARCHAR,
    device_memory_bytes BIGINT,
    network VARCHAR NOT NULL,
    network_gbps DOUBLE CHECK (isfinite(network_gbps)),
    network_peak_gbps DOUBLE CHECK (isfinite(network_peak_gbps)),
    observed_at TIMESTAMPTZ NOT NULL,
    source VARCHAR NOT NULL
);
COMMENT ON TABLE raw.instance_type IS 'Hardware of node types as their provider describes it, one row per node type, region and time';
COMMENT ON COLUMN raw.instance_type.run_id IS 'The run that asked for prices';
COMMENT ON COLUMN raw.instance_type.provider IS 'Who rents it, for example aws';
COMMENT ON COLUMN raw.instance_type.node_type IS 'Kind of machine';
COMMENT ON COLUMN raw.instance_type.region IS 'Region of the provider that offers it';
COMMENT ON COLUMN raw.instance_type.vcpus IS 'Number of virtual processors';
COMMENT ON COLUMN raw.instance_type.memory_bytes IS 'Memory, bytes';
COMMENT ON COLUMN raw.instance_type.device_count IS 'Number of GPUs; 0: none';
COMMENT ON COLUMN raw.instance_type.device_name IS 'Maker and name of its GPUs; NULL: none';
COMMENT ON COLUMN raw.instance_type.device_memory_bytes IS 'Memory of one GPU, bytes; NULL: none';
COMMENT ON COLUMN raw.instance_type.network IS 'Speed of its network in the provider''s words, for example Up to 10 Gigabit';
COMMENT ON COLUMN raw.instance_type.network_gbps IS 'Speed that its network cards always have, all together, gigabits per second; NULL: not told';
COMMENT ON COLUMN raw.instance_type.network_peak_gbps IS 'Speed that they have at best; NULL: not told';
COMMENT ON COLUMN raw.instance_type.observed_at IS 'When the provider was asked, UTC';
COMMENT ON COLUMN raw.instance_type.source IS 'Where it was read, for example an API';

CREATE VIEW visible.instance_type AS
SELECT * FROM raw.instance_type SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.instance_type IS 'raw.instance_type limited to ok profile runs';

CREATE VIEW report.price AS
WITH observed AS (
    SELECT
        run.backend, provider, node_type, region, zone, market, usd_per_hour, observed_at, source,
        min(run.ended_at) FILTER (run.probe = 'prices') AS seen_at
    FROM raw.price JOIN raw.run AS run USING (run_id)
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
