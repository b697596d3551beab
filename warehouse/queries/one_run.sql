-- What was a run ($run_id, NULL: each): command, configuration, environment, host, price?
SELECT
    run.*, label, node_type, comparable_id, config ->> '$.command' AS command, code_version, canonical
FROM raw.run AS run
LEFT JOIN report.configuration USING (run_id)
LEFT JOIN raw.scenario USING (run_id)
WHERE $run_id::VARCHAR IS NULL OR run_id = $run_id
ORDER BY started_at, run_id;
