-- Which runs can be compared, and what tells them apart?
SELECT
    run_id, study, repeat, started_at, node_type, code_version, run.software
FROM raw.run AS run
JOIN report.configuration USING (run_id)
WHERE run_id IN (SELECT run_id FROM report.history)
ORDER BY started_at, run_id;
