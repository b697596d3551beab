-- How wrong has each system been of each scenario of a split ($backend), those merely asked for included?
-- $known_by: those that no run had judged by then are left out; NULL: none are.
-- error_percent: mean of its forecasts that were judged while the host was not busy, percent; inside: how many of
-- those with_interval had what was measured in their interval.
WITH judged AS (
    FROM report.verdict(NULL) WHERE subject_kind = 'scenario'
)
SELECT
    judged.system, judged.metric, judged.scenario_id, any_value(judged.label) AS label,
    any_value(scenario.canonical) AS canonical, judged.split,
    avg(judged.error_percent) AS error_percent, avg(judged.ape_percent) AS ape_percent,
    count(*) AS judged_n, count(judged.inside_interval) AS with_interval,
    count(*) FILTER (judged.inside_interval) AS inside,
    avg(judged.noise_floor_percent) AS noise_floor_percent
FROM judged
JOIN (
    SELECT scenario_id, any_value(canonical) AS canonical FROM raw.scenario GROUP BY scenario_id
) AS scenario USING (scenario_id)
WHERE judged.ape_percent IS NOT NULL AND NOT judged.host_busy
    AND ($backend::VARCHAR IS NULL OR judged.backend = $backend)
    AND ($known_by::TIMESTAMPTZ IS NULL OR judged.prediction_id IN (
        SELECT pair.prediction_id
        FROM report.judged AS pair
        JOIN raw.run AS run USING (run_id)
        WHERE run.started_at <= $known_by::TIMESTAMPTZ
    ))
GROUP BY judged.system, judged.metric, judged.scenario_id, judged.split
ORDER BY judged.system, judged.metric, label, judged.scenario_id, judged.split;
