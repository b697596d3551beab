-- What has been run, when, for how long, and what failed, in a study or in all ($study NULL)?
SELECT
    run.run_id, run.probe, run.purpose, run.study, run.repeat, scenario.label, run.backend, run.host_id,
    run.status, run.error, run.started_at, epoch(run.ended_at - run.started_at) AS seconds, run.cost_usd
FROM raw.run AS run
LEFT JOIN report.scenario AS scenario USING (scenario_id)
WHERE $study::VARCHAR IS NULL OR run.study = $study
ORDER BY run.started_at, run.run_id;
