-- What has been fitted ($system, NULL: of each system), to which runs, with which parameters?
-- made_by: every version of the code that made it, the first one first, and digests of its system's code (code:...).
SELECT
    system, fit_id, model_version, code_version, backend, host_id, created_at, run_ids, row_filter,
    row_count, data_hash, parameters,
    list_prepend(code_version, coalesce(remade.versions, [])) AS made_by
FROM fit.fit
LEFT JOIN (
    SELECT key AS fit_id, list(code_version ORDER BY code_version) AS versions
    FROM meta.remade GROUP BY key
) AS remade USING (fit_id)
WHERE $system::VARCHAR IS NULL OR system = $system
ORDER BY system, created_at, fit_id;
