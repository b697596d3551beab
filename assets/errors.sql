-- How wrong each system was in the newest round of each study, as forecasting.results.by_system counts it: of scenarios
-- with several workers, if there are any, that were measured while the host was not busy.
WITH round AS (
    SELECT study, backend, host_id, repeat FROM raw.run
    WHERE purpose = 'measurement' AND status = 'ok' AND backend <> 'imported'
    QUALIFY row_number() OVER (PARTITION BY study ORDER BY started_at DESC) = 1
),
judged AS (
    SELECT study, system, error_percent, host_busy, workers, max(workers) OVER (PARTITION BY study) > 1 AS several
    FROM report.accuracy
    JOIN round USING (study, backend, host_id, repeat)
    JOIN report.scenario USING (scenario_id)
    QUALIFY row_number() OVER (PARTITION BY study, system, scenario_id ORDER BY made_at DESC) = 1
)
SELECT study, system, NULL::VARCHAR AS dnn, count(*) AS n, avg(abs(error_percent)) AS mean_ape_percent
FROM judged
WHERE NOT host_busy AND (workers > 1 OR NOT several)
GROUP BY study, system
ORDER BY study, system
