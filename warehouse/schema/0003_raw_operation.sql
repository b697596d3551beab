-- Training steps operation by operation. Narrow on purpose: these are the tables with many rows.
CREATE TABLE raw.operation (
    run_id VARCHAR NOT NULL,
    operation INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    type VARCHAR NOT NULL,
    resource VARCHAR NOT NULL CHECK (resource IN ('downlink', 'worker', 'uplink', 'ps')),
    server SMALLINT,
    size_bytes BIGINT,
    device VARCHAR,
    input_bytes BIGINT,
    output_bytes BIGINT
);
COMMENT ON TABLE raw.operation IS 'Operations of a traced training step, one row per operation of the graph';
COMMENT ON COLUMN raw.operation.run_id IS 'The run';
COMMENT ON COLUMN raw.operation.operation IS 'Index of the operation in the graph of this run';
COMMENT ON COLUMN raw.operation.name IS 'Name the framework gives the operation';
COMMENT ON COLUMN raw.operation.type IS 'Kind of operation, for example Conv2D';
COMMENT ON COLUMN raw.operation.resource IS 'What it occupies: downlink (server to worker), worker, uplink or ps';
COMMENT ON COLUMN raw.operation.server IS 'Index of the parameter server, from 0; NULL: none takes part';
COMMENT ON COLUMN raw.operation.size_bytes IS 'Bytes transferred; NULL: not a transfer';
COMMENT ON COLUMN raw.operation.device IS 'What computes it: host, gpu or an accelerator''s name; NULL: not known';
COMMENT ON COLUMN raw.operation.input_bytes IS 'Size of all its inputs, bytes; NULL: not known';
COMMENT ON COLUMN raw.operation.output_bytes IS 'Size of all its outputs, bytes; NULL: not known';

CREATE TABLE raw.operation_shape (
    run_id VARCHAR NOT NULL,
    operation INTEGER NOT NULL,
    inputs JSON NOT NULL,
    outputs JSON NOT NULL,
    attributes JSON NOT NULL
);
COMMENT ON TABLE raw.operation_shape IS 'What each operation works on, one row per operation';
COMMENT ON COLUMN raw.operation_shape.run_id IS 'The run';
COMMENT ON COLUMN raw.operation_shape.operation IS 'Index of the operation';
COMMENT ON COLUMN raw.operation_shape.inputs IS 'Shapes of its inputs, a list of lists of element counts';
COMMENT ON COLUMN raw.operation_shape.outputs IS 'Shapes of its outputs, a list of lists of element counts';
COMMENT ON COLUMN raw.operation_shape.attributes IS 'What else decides its cost, for example filter, strides, padding';

CREATE TABLE raw.operation_time (
    run_id VARCHAR NOT NULL,
    operation INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    mean_us DOUBLE NOT NULL CHECK (isfinite(mean_us)),
    median_us DOUBLE NOT NULL CHECK (isfinite(median_us)),
    sd_us DOUBLE NOT NULL CHECK (isfinite(sd_us)),
    min_us DOUBLE NOT NULL CHECK (isfinite(min_us)),
    p95_us DOUBLE NOT NULL CHECK (isfinite(p95_us))
);
COMMENT ON TABLE raw.operation_time IS 'How long each operation took over the traced steps, one row per operation';
COMMENT ON COLUMN raw.operation_time.run_id IS 'The run';
COMMENT ON COLUMN raw.operation_time.operation IS 'Index of the operation';
COMMENT ON COLUMN raw.operation_time.steps IS 'Number of traced steps the figures are of';
COMMENT ON COLUMN raw.operation_time.mean_us IS 'Mean duration, microseconds';
COMMENT ON COLUMN raw.operation_time.median_us IS 'Median duration, microseconds';
COMMENT ON COLUMN raw.operation_time.sd_us IS 'Standard deviation of the duration, microseconds; 0 for one step';
COMMENT ON COLUMN raw.operation_time.min_us IS 'Shortest duration, microseconds';
COMMENT ON COLUMN raw.operation_time.p95_us IS '95th percentile of the duration, microseconds';

CREATE TABLE raw.edge (
    run_id VARCHAR NOT NULL,
    source INTEGER NOT NULL,
    target INTEGER NOT NULL
);
COMMENT ON TABLE raw.edge IS 'Dependencies between operations: target waits for source';
COMMENT ON COLUMN raw.edge.run_id IS 'The run';
COMMENT ON COLUMN raw.edge.source IS 'Index of the operation that ends first';
COMMENT ON COLUMN raw.edge.target IS 'Index of the operation that waits for it';

CREATE TABLE raw.timing (
    run_id VARCHAR NOT NULL,
    step INTEGER NOT NULL,
    operation INTEGER NOT NULL,
    start_us INTEGER NOT NULL,
    duration_us INTEGER NOT NULL
);
COMMENT ON TABLE raw.timing IS 'When each operation ran, one row per traced step and operation';
COMMENT ON COLUMN raw.timing.run_id IS 'The run';
COMMENT ON COLUMN raw.timing.step IS 'Index of the traced step';
COMMENT ON COLUMN raw.timing.operation IS 'Index of the operation';
COMMENT ON COLUMN raw.timing.start_us IS 'Start of the operation, microseconds since the start of the step';
COMMENT ON COLUMN raw.timing.duration_us IS 'How long it ran, microseconds';
