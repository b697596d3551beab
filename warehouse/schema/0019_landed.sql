-- The chain holds what landed: the checksums of each run's Parquet files, of every edition that was loaded.
ALTER TABLE meta.loaded ADD COLUMN landed_sha256 VARCHAR;
COMMENT ON COLUMN meta.loaded.landed_sha256 IS 'SHA-256 of the checksums of its Parquet files when first loaded, hex; NULL: loaded before they were kept';

CREATE TABLE meta.reloaded (
    run_id VARCHAR NOT NULL,
    landed_sha256 VARCHAR NOT NULL,
    loaded_at TIMESTAMPTZ NOT NULL,
    sequence BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE meta.reloaded IS 'Later editions of landed runs, one row per load of other files; the newest of a run is in raw.*';
COMMENT ON COLUMN meta.reloaded.run_id IS 'The run, in meta.loaded';
COMMENT ON COLUMN meta.reloaded.landed_sha256 IS 'SHA-256 of the checksums of its Parquet files, hex';
COMMENT ON COLUMN meta.reloaded.loaded_at IS 'When this edition was loaded, UTC';
COMMENT ON COLUMN meta.reloaded.sequence IS 'Number of the row in the order of meta.chain';
COMMENT ON COLUMN meta.reloaded.sha256 IS 'SHA-256 over the chain''s row before it and this row, hex';
