-- Steps that predictors simulated, kept on request. They are no measurements, and no part of the ledger:
-- saving those of a fit and scenario again replaces them.
CREATE TABLE pred.synthetic_interval (
    fit_id VARCHAR NOT NULL,
    subject_id VARCHAR NOT NULL,
    worker SMALLINT NOT NULL,
    step INTEGER NOT NULL,
    operation INTEGER NOT NULL,
    name VARCHAR NOT NULL,
    resource VARCHAR NOT NULL CHECK (resource IN ('downlink', 'worker', 'uplink', 'ps')),
    server SMALLINT,
    start_us BIGINT NOT NULL,
    end_us BIGINT NOT NULL,
    size_bytes DOUBLE,
    CHECK (start_us <= end_us)
);
COMMENT ON TABLE pred.synthetic_interval IS 'Simulated steps, one row per computation or chunk of a transfer that ran without a break; saved by stepcast timeline --save';
COMMENT ON COLUMN pred.synthetic_interval.fit_id IS 'The fit that was simulated, in fit.fit';
COMMENT ON COLUMN pred.synthetic_interval.subject_id IS 'What was simulated: a scenario_id';
COMMENT ON COLUMN pred.synthetic_interval.worker IS 'Index of the worker, from 0';
COMMENT ON COLUMN pred.synthetic_interval.step IS 'Index of the step on this worker, from the start of the simulation';
COMMENT ON COLUMN pred.synthetic_interval.operation IS 'Index of the operation as in raw.operation of the profile; beyond those, parsing of transfers';
COMMENT ON COLUMN pred.synthetic_interval.name IS 'Name of the operation; that of parsing ends in /parsing';
COMMENT ON COLUMN pred.synthetic_interval.resource IS 'What it occupied: downlink (server to worker), worker, uplink or ps';
COMMENT ON COLUMN pred.synthetic_interval.server IS 'Index of the parameter server; NULL: the worker computed';
COMMENT ON COLUMN pred.synthetic_interval.start_us IS 'When it began, microseconds since the first of the saved steps';
COMMENT ON COLUMN pred.synthetic_interval.end_us IS 'When it ended, microseconds since the first of the saved steps';
COMMENT ON COLUMN pred.synthetic_interval.size_bytes IS 'Bytes that a link carried meanwhile; NULL: a computation';
