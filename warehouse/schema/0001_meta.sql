-- What the warehouse knows of itself: its schema version, what entered it and in which order.
CREATE SCHEMA meta;

CREATE TABLE meta.migration (
    version INTEGER PRIMARY KEY,
    name VARCHAR NOT NULL,
    sha256 VARCHAR NOT NULL,
    applied_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE meta.migration IS 'Schema changes applied to this file, one row per migration';
COMMENT ON COLUMN meta.migration.version IS 'Number of the migration; the largest is the schema version';
COMMENT ON COLUMN meta.migration.name IS 'File name of the migration';
COMMENT ON COLUMN meta.migration.sha256 IS 'SHA-256 of the migration file when it was applied, hex';
COMMENT ON COLUMN meta.migration.applied_at IS 'When it was applied, UTC';

CREATE TABLE meta.loaded (
    run_id VARCHAR NOT NULL,
    sequence BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL,
    signature VARCHAR NOT NULL,
    loaded_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE meta.loaded IS 'Landed runs held in raw.*, one row per run';
COMMENT ON COLUMN meta.loaded.run_id IS 'The run; also the name of its landing folder';
COMMENT ON COLUMN meta.loaded.sequence IS 'Number of its first load in the order of meta.chain; loading it again keeps it';
COMMENT ON COLUMN meta.loaded.sha256 IS 'SHA-256 over the chain''s row before it and run_id, hex';
COMMENT ON COLUMN meta.loaded.signature IS 'Hash of names, sizes and times of its Parquet files when loaded';
COMMENT ON COLUMN meta.loaded.loaded_at IS 'When it was loaded last, UTC';

-- Loads, fits, predictions and recommendations are numbered together, in the order they were written.
CREATE TABLE meta.chain (
    sequence BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE meta.chain IS 'Newest row of the chain over meta.loaded, fit.fit, pred.ledger and pred.recommendation; one row';
COMMENT ON COLUMN meta.chain.sequence IS 'Number of that row; 0: there is none yet';
COMMENT ON COLUMN meta.chain.sha256 IS 'Its SHA-256, hex';
INSERT INTO meta.chain VALUES (0, '');
