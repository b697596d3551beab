-- Predictions against what was measured after them.

-- As of the start of each run: per system, the newest prediction made before it judges.
CREATE VIEW report.judged AS
SELECT
    prediction.prediction_id, measured.run_id, measured.value, measured.spread_percent,
    measured.idle_cpu_fraction
FROM report.measured AS measured
JOIN pred.ledger AS prediction
    ON prediction.subject_kind = 'scenario'
    AND prediction.subject_id = measured.scenario_id
    AND prediction.backend = measured.backend
    AND prediction.host_id = measured.host_id
    AND prediction.metric = measured.metric
    AND prediction.made_at < measured.started_at
QUALIFY row_number() OVER (
    PARTITION BY measured.run_id, measured.metric, prediction.system
    ORDER BY prediction.made_at DESC, prediction.prediction_id
) = 1;
COMMENT ON VIEW report.judged IS 'Which run judges which prediction, one row per run, metric and system';
COMMENT ON COLUMN report.judged.prediction_id IS 'Newest prediction of its system that was made before the run started';
COMMENT ON COLUMN report.judged.run_id IS 'The run that judges it';
COMMENT ON COLUMN report.judged.value IS 'What the run measured, in the unit of the prediction';
COMMENT ON COLUMN report.judged.spread_percent IS 'Within-run spread, percent';
COMMENT ON COLUMN report.judged.idle_cpu_fraction IS 'Part of the host''s processor time that was idle during the run, 0 to 1';

CREATE VIEW report.accuracy AS
WITH verdict AS (
    SELECT
        prediction_id,
        avg(value) AS measured,
        avg(spread_percent) AS spread_percent,
        coalesce(bool_or(idle_cpu_fraction < 0.20), false) AS host_busy,
        count(*) AS runs
    FROM report.judged GROUP BY prediction_id
),
compared AS (
    SELECT
        prediction.* RENAME (subject_id AS scenario_id), verdict.* EXCLUDE (prediction_id),
        100 * (prediction.value - measured) / nullif(measured, 0) AS error_percent,
        measured BETWEEN prediction.low AND prediction.high AS inside_interval
    FROM pred.ledger AS prediction JOIN verdict USING (prediction_id)
)
SELECT
    system, backend, host_id, scenario_id, scenario.label, metric, unit,
    value AS predicted, low, high, measured, error_percent, abs(error_percent) AS ape_percent,
    spread_percent, inside_interval, runs, host_busy,
    CASE
        WHEN list_contains(fitted.scenario_ids, scenario_id) THEN 'seen'
        WHEN NOT coalesce(list_contains(fitted.dnns, scenario.dnn), false) THEN 'held_out_dnn'
        WHEN NOT list_contains(fitted.worker_node_types, scenario.worker_node_type)
            THEN 'held_out_node_type'
        WHEN NOT list_contains(fitted.world_sizes, scenario.workers) THEN 'held_out_world_size'
        ELSE 'held_out_scenario'
    END AS split,
    noise.noise_floor_percent, noise.noise_runs,
    prediction_id, fit_id, model_version, study, repeat, made_at
FROM compared
JOIN report.scenario AS scenario USING (scenario_id)
LEFT JOIN report.fitted AS fitted USING (fit_id)
LEFT JOIN report.noise AS noise USING (scenario_id, backend, host_id, metric);
COMMENT ON VIEW report.accuracy IS 'Predictions beside what was measured after them, one row per judged prediction';
COMMENT ON COLUMN report.accuracy.system IS 'Performance model that predicted';
COMMENT ON COLUMN report.accuracy.backend IS 'Where it was measured';
COMMENT ON COLUMN report.accuracy.host_id IS 'Host that measured';
COMMENT ON COLUMN report.accuracy.scenario_id IS 'What was predicted and measured';
COMMENT ON COLUMN report.accuracy.label IS 'Short name of the scenario';
COMMENT ON COLUMN report.accuracy.metric IS 'What was predicted and measured';
COMMENT ON COLUMN report.accuracy.unit IS 'Unit of predicted, low, high and measured';
COMMENT ON COLUMN report.accuracy.predicted IS 'The prediction, in the unit of this row';
COMMENT ON COLUMN report.accuracy.low IS 'Lower end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.accuracy.high IS 'Upper end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.accuracy.measured IS 'Mean of the runs that judge it, in the unit of this row';
COMMENT ON COLUMN report.accuracy.error_percent IS '(predicted - measured) / measured, percent';
COMMENT ON COLUMN report.accuracy.ape_percent IS 'Size of the error, percent';
COMMENT ON COLUMN report.accuracy.spread_percent IS 'Within-run spread, percent, mean of the runs that judge it';
COMMENT ON COLUMN report.accuracy.inside_interval IS 'Whether measured lies between low and high; NULL: no interval';
COMMENT ON COLUMN report.accuracy.runs IS 'Number of runs that judge it';
COMMENT ON COLUMN report.accuracy.host_busy IS 'Whether a run that judges it left less than 0.20 of the host''s processor time idle';
COMMENT ON COLUMN report.accuracy.split IS 'How far the scenario is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type or held_out_dnn';
COMMENT ON COLUMN report.accuracy.noise_floor_percent IS 'Noise floor of the measurement, percent, as in report.noise';
COMMENT ON COLUMN report.accuracy.noise_runs IS 'Number of runs behind the noise floor';
COMMENT ON COLUMN report.accuracy.prediction_id IS 'The row in pred.ledger';
COMMENT ON COLUMN report.accuracy.fit_id IS 'The fit it rests on';
COMMENT ON COLUMN report.accuracy.model_version IS 'Version of the model code';
COMMENT ON COLUMN report.accuracy.study IS 'Study that asked for the prediction';
COMMENT ON COLUMN report.accuracy.repeat IS 'Round of the study it was made in';
COMMENT ON COLUMN report.accuracy.made_at IS 'When it was made, UTC';

-- A subject counts once, however many rounds judged it.
CREATE VIEW report.leaderboard AS
WITH subject AS (
    SELECT
        system, backend, split, metric, scenario_id, host_id,
        avg(ape_percent) AS ape,
        any_value(noise_floor_percent) AS noise_floor
    FROM report.accuracy
    WHERE ape_percent IS NOT NULL
    GROUP BY system, backend, split, metric, scenario_id, host_id
)
SELECT
    system, backend, split, metric,
    count(*) AS n,
    avg(ape) AS mape,
    median(ape) AS median_ape,
    quantile_cont(ape, 0.9) AS p90_ape,
    max(ape) AS max_ape,
    avg(noise_floor) AS noise_floor,
    count(noise_floor) AS noise_n
FROM subject GROUP BY system, backend, split, metric;
COMMENT ON VIEW report.leaderboard IS 'How wrong each system has been, one row per system, backend, split and metric';
COMMENT ON COLUMN report.leaderboard.system IS 'Performance model';
COMMENT ON COLUMN report.leaderboard.backend IS 'Where it was measured';
COMMENT ON COLUMN report.leaderboard.split IS 'How far the subjects are from what the fit saw';
COMMENT ON COLUMN report.leaderboard.metric IS 'What was predicted';
COMMENT ON COLUMN report.leaderboard.n IS 'Number of subjects: a scenario on a backend and host counts once';
COMMENT ON COLUMN report.leaderboard.mape IS 'Mean absolute error over subjects, percent';
COMMENT ON COLUMN report.leaderboard.median_ape IS 'Median absolute error, percent';
COMMENT ON COLUMN report.leaderboard.p90_ape IS '90th percentile of the absolute error, percent, interpolated';
COMMENT ON COLUMN report.leaderboard.max_ape IS 'Largest absolute error, percent';
COMMENT ON COLUMN report.leaderboard.noise_floor IS 'Mean noise floor of the subjects that have one, percent';
COMMENT ON COLUMN report.leaderboard.noise_n IS 'Number of subjects that have one';
