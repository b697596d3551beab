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
