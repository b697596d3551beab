-- Which runs failed and why, in a study or in all ($study NULL)?
SELECT
    run.run_id, run.error, run.probe, run.purpose, scenario.label, run.backend, run.host_id, run.study,
    run.repeat, run.started_at, epoch(run.ended_at - run.started_at) AS seconds
FROM raw.run AS run
LEFT JOIN report.scenario AS scenario USING (scenario_id)
WHERE run.status = 'failed' AND ($study::VARCHAR IS NULL OR run.study = $study)
ORDER BY run.started_at, run.run_id;
