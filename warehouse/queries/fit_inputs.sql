-- What did a fit see ($fit_id, or all of $system; NULL: all): which runs, of what, in how many rows?
SELECT
    fit.system, fit.fit_id, fit.model_version, fit.code_version, fit.created_at, fit.row_count,
    fit.row_filter, fit.data_hash, run_id, run.probe, run.backend, run.host_id, scenario.label,
    run.started_at
FROM (SELECT * REPLACE (unnest(run_ids) AS run_ids) RENAME (run_ids AS run_id) FROM fit.fit) AS fit
LEFT JOIN raw.run AS run USING (run_id)
LEFT JOIN report.scenario AS scenario USING (scenario_id)
WHERE ($fit_id::VARCHAR IS NULL OR fit.fit_id = $fit_id)
    AND ($system::VARCHAR IS NULL OR fit.system = $system)
ORDER BY fit.system, fit.created_at, fit.fit_id, run.started_at, run_id;
