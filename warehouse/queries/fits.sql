-- What has been fitted ($system, NULL: of each system), to which runs, with which parameters?
SELECT
    system, fit_id, model_version, code_version, backend, host_id, created_at, run_ids, row_filter,
    row_count, data_hash, parameters
FROM fit.fit
WHERE $system::VARCHAR IS NULL OR system = $system
ORDER BY system, created_at, fit_id;
