-- Timings of a large run stay in the file that landed (warehouse/loader.py): the database points to it.
CREATE TABLE meta.timing_file (
    run_id VARCHAR NOT NULL,
    file VARCHAR NOT NULL,
    rows BIGINT NOT NULL
);
COMMENT ON TABLE meta.timing_file IS 'Runs whose timings are not in raw.timing but in the file that landed; report.timing has both';
COMMENT ON COLUMN meta.timing_file.run_id IS 'The run';
COMMENT ON COLUMN meta.timing_file.file IS 'Its Parquet file, an absolute path';
COMMENT ON COLUMN meta.timing_file.rows IS 'Timings in it';
