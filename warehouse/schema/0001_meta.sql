-- What the warehouse knows of itself: its schema version and which landed runs it holds.
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
    signature VARCHAR NOT NULL,
    loaded_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE meta.loaded IS 'Landed runs held in raw.*, one row per run';
COMMENT ON COLUMN meta.loaded.run_id IS 'The run; also the name of its landing folder';
COMMENT ON COLUMN meta.loaded.signature IS 'Hash of names, sizes and times of its Parquet files when loaded';
COMMENT ON COLUMN meta.loaded.loaded_at IS 'When it was loaded, UTC';
