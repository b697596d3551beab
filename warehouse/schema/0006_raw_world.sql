-- The world around the runs: nodes, prices, and measurements that others made.
CREATE TABLE raw.cluster_node (
    run_id VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    role VARCHAR NOT NULL,
    node_type VARCHAR NOT NULL,
    address VARCHAR,
    cores DOUBLE CHECK (isfinite(cores)),
    memory_bytes BIGINT,
    device_count SMALLINT,
    device_name VARCHAR
);
COMMENT ON TABLE raw.cluster_node IS 'Nodes of the cluster that ran, one row per node';
COMMENT ON COLUMN raw.cluster_node.run_id IS 'The run';
COMMENT ON COLUMN raw.cluster_node.node IS 'Name of the node within its cluster';
COMMENT ON COLUMN raw.cluster_node.role IS 'What it does, for example worker or server';
COMMENT ON COLUMN raw.cluster_node.node_type IS 'Kind of machine, for example p3.2xlarge or emu.avx2.1c';
COMMENT ON COLUMN raw.cluster_node.address IS 'Its network address; NULL: not known';
COMMENT ON COLUMN raw.cluster_node.cores IS 'Processor cores it may use, or parts of one; NULL: not known';
COMMENT ON COLUMN raw.cluster_node.memory_bytes IS 'Memory it may use, bytes; NULL: not known';
COMMENT ON COLUMN raw.cluster_node.device_count IS 'Number of accelerators; NULL: not known';
COMMENT ON COLUMN raw.cluster_node.device_name IS 'Name of its accelerator; NULL: none or not known';

CREATE TABLE raw.runtime_event (
    run_id VARCHAR NOT NULL,
    at_s DOUBLE NOT NULL CHECK (isfinite(at_s)),
    event VARCHAR NOT NULL,
    node VARCHAR,
    node_type VARCHAR,
    step BIGINT,
    detail JSON NOT NULL
);
COMMENT ON TABLE raw.runtime_event IS 'What happened to training jobs (probe train): nodes launched and lost, checkpoints, plans';
COMMENT ON COLUMN raw.runtime_event.run_id IS 'The run, one for each job';
COMMENT ON COLUMN raw.runtime_event.at_s IS 'When, seconds since the job began';
COMMENT ON COLUMN raw.runtime_event.event IS 'began, resumed, planned, launch (asked for), launched (up), training, progress, broken, lost, saving, saved, released, asked, answered, stopped, finished or aborted';
COMMENT ON COLUMN raw.runtime_event.node IS 'The node it concerns; NULL: the whole job';
COMMENT ON COLUMN raw.runtime_event.node_type IS 'Kind of that node';
COMMENT ON COLUMN raw.runtime_event.step IS 'Iterations done by then, or in the checkpoint; NULL: not told';
COMMENT ON COLUMN raw.runtime_event.detail IS 'What else is known: reason of a loss, what a plan expects (finish_s, cost_usd), ranks and batches, limits';

CREATE TABLE raw.price (
    run_id VARCHAR NOT NULL,
    provider VARCHAR NOT NULL,
    node_type VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    zone VARCHAR,
    market VARCHAR NOT NULL CHECK (market IN ('on_demand', 'spot')),
    usd_per_hour DOUBLE NOT NULL CHECK (isfinite(usd_per_hour)),
    observed_at TIMESTAMPTZ NOT NULL,
    source VARCHAR NOT NULL
);
COMMENT ON TABLE raw.price IS 'Prices of node types as observed, one row per node type, place, market and time';
COMMENT ON COLUMN raw.price.run_id IS 'The run that asked for prices';
COMMENT ON COLUMN raw.price.provider IS 'Who rents it, for example aws';
COMMENT ON COLUMN raw.price.node_type IS 'Kind of machine';
COMMENT ON COLUMN raw.price.region IS 'Region of the provider, for example us-east-1';
COMMENT ON COLUMN raw.price.zone IS 'Zone within the region; NULL: one price for the region';
COMMENT ON COLUMN raw.price.market IS 'on_demand or spot';
COMMENT ON COLUMN raw.price.usd_per_hour IS 'Price of one node, US dollars per hour';
COMMENT ON COLUMN raw.price.observed_at IS 'When the price held, UTC';
COMMENT ON COLUMN raw.price.source IS 'Where it was read, for example an API or a file';

CREATE TABLE raw.external (
    run_id VARCHAR NOT NULL,
    row_number BIGINT NOT NULL,
    subject JSON NOT NULL,
    metric VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    value DOUBLE CHECK (isfinite(value)),
    repeat INTEGER NOT NULL
);
COMMENT ON TABLE raw.external IS 'Measurements others made, one row per figure; their runs have backend imported';
COMMENT ON COLUMN raw.external.run_id IS 'The run that stands for the imported file';
COMMENT ON COLUMN raw.external.row_number IS 'Row of the file, from 1';
COMMENT ON COLUMN raw.external.subject IS 'What was measured, in the words of the file''s column mapping';
COMMENT ON COLUMN raw.external.metric IS 'What was measured, for example step_time_s';
COMMENT ON COLUMN raw.external.unit IS 'Unit of the value';
COMMENT ON COLUMN raw.external.value IS 'The figure, in the unit of this row; NULL: missing';
COMMENT ON COLUMN raw.external.repeat IS 'Repetition of the same measurement, from 1';

CREATE TABLE raw.source (
    run_id VARCHAR NOT NULL,
    format VARCHAR NOT NULL,
    file_name VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,
    source VARCHAR NOT NULL,
    licence VARCHAR,
    url VARCHAR,
    imported_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE raw.source IS 'Where imported runs come from, one row per imported run';
COMMENT ON COLUMN raw.source.run_id IS 'The run that stands for the imported file';
COMMENT ON COLUMN raw.source.format IS 'Format it was read as, for example nccl-tests';
COMMENT ON COLUMN raw.source.file_name IS 'Name of the file';
COMMENT ON COLUMN raw.source.sha256 IS 'SHA-256 of the file, hex';
COMMENT ON COLUMN raw.source.source IS 'Who measured it, or the collection it is part of';
COMMENT ON COLUMN raw.source.licence IS 'Licence of the data; NULL: not known';
COMMENT ON COLUMN raw.source.url IS 'Where the file was found; NULL: not known';
COMMENT ON COLUMN raw.source.imported_at IS 'When it was imported, UTC';
