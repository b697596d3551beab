-- What did configurations give over time, run by run ($words of their names; NULL: all)?
-- Each word has to be somewhere in: label, probe, node type, metric, point, study, scenario or comparable id.
SELECT
    comparable_id, label, node_type, history.metric, point, value, unit, history.started_at,
    100 * (value / nullif(median(value) OVER figure, 0) - 1) AS percent_from_median,
    (config ->> '$.gauge_us')::DOUBLE AS gauge_us, history.study, history.repeat, history.backend, run_id
FROM report.history AS history
JOIN report.configuration USING (run_id, comparable_id)
JOIN raw.run AS run USING (run_id)
WHERE $words::VARCHAR IS NULL OR list_bool_and(list_transform(
    string_split_regex(trim(lower($words)), '\s+'),
    lambda word: contains(lower(concat_ws(
        ' ', label, history.probe, node_type, history.metric, point, history.study,
        history.scenario_id, comparable_id
    )), word)
))
WINDOW figure AS (PARTITION BY comparable_id, history.metric, point)
ORDER BY label, node_type, history.metric, point, comparable_id, history.started_at, run_id;
