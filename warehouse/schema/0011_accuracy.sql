-- Predictions against what was measured after them.

-- As of the first load of each run: per system, the newest prediction in the ledger is judged. The
-- order is the warehouse's own: a clock that jumps back lets no prediction see its measurement.
-- Words of an imported file mean one thing within its study only, so its rows judge that study.
CREATE VIEW report.judged AS
WITH measured AS (
    SELECT
        'scenario' AS subject_kind, scenario_id AS subject_id, NULL AS judges_study, run_id, backend,
        host_id, metric, value, spread_percent, idle_cpu_fraction, stolen_cpu_fraction,
        noise_floor_percent, noise_runs
    FROM report.measured
    LEFT JOIN report.noise AS noise USING (scenario_id, backend, host_id, metric)
    UNION ALL
    SELECT
        'external', subject_id, study, run_id, backend, host_id, metric, value, NULL, NULL, NULL,
        noise_floor_percent, noise_runs
    FROM report.external
)
SELECT
    prediction.prediction_id, measured.run_id, measured.backend, measured.value,
    measured.spread_percent, measured.idle_cpu_fraction, measured.stolen_cpu_fraction,
    measured.noise_floor_percent, measured.noise_runs
FROM measured
JOIN meta.loaded AS loaded USING (run_id)
JOIN pred.ledger AS prediction
    ON prediction.subject_kind = measured.subject_kind
    AND prediction.subject_id = measured.subject_id
    AND prediction.backend = measured.backend
    AND prediction.host_id = measured.host_id
    AND prediction.metric = measured.metric
    AND (judges_study IS NULL OR prediction.study = judges_study)
    AND prediction.sequence < loaded.sequence
-- Not row_number() = 1: DuckDB 1.5.5 turns that into a join which loses rows here.
QUALIFY prediction.sequence = max(prediction.sequence) OVER (
    PARTITION BY measured.run_id, measured.subject_id, measured.metric, prediction.system
);
COMMENT ON VIEW report.judged IS 'Which run judges which prediction, one row per run, subject, metric and system';
COMMENT ON COLUMN report.judged.prediction_id IS 'Newest prediction of its system that was in the ledger before the run was loaded';
COMMENT ON COLUMN report.judged.run_id IS 'The run that judges it';
COMMENT ON COLUMN report.judged.backend IS 'Where it was measured';
COMMENT ON COLUMN report.judged.value IS 'What the run measured, in the unit of the prediction';
COMMENT ON COLUMN report.judged.spread_percent IS 'Within-run spread, percent';
COMMENT ON COLUMN report.judged.idle_cpu_fraction IS 'Part of the host''s processor time that was idle during the run, 0 to 1';
COMMENT ON COLUMN report.judged.stolen_cpu_fraction IS 'Part of it that the host''s hypervisor took, 0 to 1';
COMMENT ON COLUMN report.judged.noise_floor_percent IS 'Noise floor of what was measured, percent, as in report.noise or report.external';
COMMENT ON COLUMN report.judged.noise_runs IS 'Number of runs or repeats behind it';

CREATE VIEW report.accuracy AS
WITH verdict AS (
    SELECT
        prediction_id,
        avg(value) AS measured,
        avg(spread_percent) AS spread_percent,
        coalesce(bool_or(idle_cpu_fraction < 0.20), false)
            OR coalesce(bool_or(stolen_cpu_fraction > 0.02), false) AS host_busy,
        count(*) AS runs,
        avg(noise_floor_percent) AS noise_floor_percent,
        max(noise_runs) AS noise_runs
    FROM report.judged GROUP BY prediction_id
),
compared AS (
    SELECT
        prediction.*, verdict.* EXCLUDE (prediction_id),
        100 * (prediction.value - measured) / nullif(measured, 0) AS error_percent,
        CASE
            WHEN regexp_matches(metric, '(_per_s|_[GMkK]?[Bb]ps)$')
                THEN 100 * (measured - prediction.value) / nullif(prediction.value, 0)
            WHEN regexp_matches(metric, '(_s|_ms|_us|_usd)$') THEN error_percent
        END AS time_error_percent,
        measured BETWEEN prediction.low AND prediction.high AS inside_interval
    FROM pred.ledger AS prediction JOIN verdict USING (prediction_id)
)
SELECT
    system, backend, host_id, subject_kind, subject_id,
    CASE WHEN subject_kind = 'scenario' THEN subject_id END AS scenario_id, subject.label, metric, unit,
    value AS predicted, low, high, measured, error_percent, abs(error_percent) AS ape_percent,
    time_error_percent, spread_percent, inside_interval, runs, host_busy,
    CASE
        WHEN list_contains(fitted.subject_ids, subject_id) THEN 'seen'
        WHEN NOT list_contains(fitted.dnns, subject.dnn)
            AND NOT list_contains(fitted.families, subject.family) THEN 'held_out_family'
        WHEN subject.dnn IS NOT NULL AND NOT coalesce(list_contains(fitted.dnns, subject.dnn), false)
            THEN 'held_out_dnn'
        WHEN NOT list_contains(fitted.node_types, subject.node_type) THEN 'held_out_node_type'
        WHEN NOT list_contains(fitted.world_sizes, subject.world_size) THEN 'held_out_world_size'
        ELSE 'held_out_scenario'
    END AS split,
    noise_floor_percent, noise_runs, prediction_id, fit_id, model_version, study, repeat, made_at
FROM compared
JOIN report.subject AS subject USING (subject_kind, subject_id)
LEFT JOIN (SELECT * EXCLUDE (backend) FROM report.fitted) AS fitted USING (fit_id);
COMMENT ON VIEW report.accuracy IS 'Predictions beside what was measured after them, one row per judged prediction';
COMMENT ON COLUMN report.accuracy.system IS 'Performance model that predicted';
COMMENT ON COLUMN report.accuracy.backend IS 'Where it was measured';
COMMENT ON COLUMN report.accuracy.host_id IS 'Host that measured';
COMMENT ON COLUMN report.accuracy.subject_kind IS 'What was predicted and measured: scenario, or external: a subject of an imported file';
COMMENT ON COLUMN report.accuracy.subject_id IS 'Which of that kind, as in report.subject';
COMMENT ON COLUMN report.accuracy.scenario_id IS 'The same of a scenario; NULL: the subject is none';
COMMENT ON COLUMN report.accuracy.label IS 'Short name of the scenario; the JSON of an imported subject';
COMMENT ON COLUMN report.accuracy.metric IS 'What was predicted and measured';
COMMENT ON COLUMN report.accuracy.unit IS 'Unit of predicted, low, high and measured';
COMMENT ON COLUMN report.accuracy.predicted IS 'The prediction, in the unit of this row';
COMMENT ON COLUMN report.accuracy.low IS 'Lower end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.accuracy.high IS 'Upper end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.accuracy.measured IS 'Mean of the runs that judge it, in the unit of this row';
COMMENT ON COLUMN report.accuracy.error_percent IS '(predicted - measured) / measured, percent';
COMMENT ON COLUMN report.accuracy.ape_percent IS 'Size of the error, percent';
COMMENT ON COLUMN report.accuracy.time_error_percent IS 'The same error in time or cost, percent: of a rate, that of its inverse; negative: underestimated; NULL: the metric is none of these';
COMMENT ON COLUMN report.accuracy.spread_percent IS 'Within-run spread, percent, mean of the runs that judge it';
COMMENT ON COLUMN report.accuracy.inside_interval IS 'Whether measured lies between low and high; NULL: no interval';
COMMENT ON COLUMN report.accuracy.runs IS 'Number of runs that judge it';
COMMENT ON COLUMN report.accuracy.host_busy IS 'Whether a run that judges it left less than 0.20 of the host''s processor time idle, or lost more than 0.02 of it to the hypervisor (means of its windows)';
COMMENT ON COLUMN report.accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known';
COMMENT ON COLUMN report.accuracy.noise_floor_percent IS 'Noise floor of the measurement, percent, as in report.judged';
COMMENT ON COLUMN report.accuracy.noise_runs IS 'Number of runs or repeats behind the noise floor';
COMMENT ON COLUMN report.accuracy.prediction_id IS 'The row in pred.ledger';
COMMENT ON COLUMN report.accuracy.fit_id IS 'The fit it rests on';
COMMENT ON COLUMN report.accuracy.model_version IS 'Version of the model code';
COMMENT ON COLUMN report.accuracy.study IS 'Study that asked for the prediction';
COMMENT ON COLUMN report.accuracy.repeat IS 'Round of the study it was made in';
COMMENT ON COLUMN report.accuracy.made_at IS 'When it was made, UTC';

-- A subject counts once, however many rounds judged it, by those in which the host was not busy.
CREATE VIEW report.leaderboard AS
WITH subject AS (
    SELECT
        system, backend, split, metric,
        avg(ape_percent) FILTER (NOT host_busy) AS ape,
        avg(time_error_percent) FILTER (NOT host_busy) AS time_error,
        avg(inside_interval::INTEGER) FILTER (NOT host_busy) AS coverage,
        any_value(noise_floor_percent) FILTER (NOT host_busy) AS noise_floor
    FROM report.accuracy
    WHERE ape_percent IS NOT NULL
    GROUP BY
        system, backend, split, metric, subject_id, host_id,
        CASE WHEN subject_kind = 'external' THEN study END
)
SELECT
    system, backend, split, metric,
    count(ape) AS n,
    count(*) - count(ape) AS busy_n,
    avg(ape) AS mape,
    median(ape) AS median_ape,
    quantile_cont(ape, 0.9) AS p90_ape,
    max(ape) AS max_ape,
    100 * avg((time_error < 0)::INTEGER) AS underestimated_percent,
    quantile_cont(greatest(-time_error, 0), 0.9) FILTER (time_error IS NOT NULL)
        AS p90_underestimate,
    100 * avg(coverage) AS coverage_percent,
    count(coverage) AS coverage_n,
    avg(noise_floor) AS noise_floor,
    count(noise_floor) AS noise_n
FROM subject GROUP BY system, backend, split, metric;
COMMENT ON VIEW report.leaderboard IS 'How wrong each system has been, one row per system, backend, split and metric';
COMMENT ON COLUMN report.leaderboard.system IS 'Performance model';
COMMENT ON COLUMN report.leaderboard.backend IS 'Where it was measured';
COMMENT ON COLUMN report.leaderboard.split IS 'How far the subjects are from what the fit saw';
COMMENT ON COLUMN report.leaderboard.metric IS 'What was predicted';
COMMENT ON COLUMN report.leaderboard.n IS 'Number of subjects: a scenario on a backend and host counts once, and so does one of an imported file';
COMMENT ON COLUMN report.leaderboard.busy_n IS 'Number of subjects that are not counted because the host was busy whenever they were measured (report.accuracy has them)';
COMMENT ON COLUMN report.leaderboard.mape IS 'Mean absolute error over subjects, percent';
COMMENT ON COLUMN report.leaderboard.median_ape IS 'Median absolute error, percent';
COMMENT ON COLUMN report.leaderboard.p90_ape IS '90th percentile of the absolute error, percent, interpolated';
COMMENT ON COLUMN report.leaderboard.max_ape IS 'Largest absolute error, percent';
COMMENT ON COLUMN report.leaderboard.underestimated_percent IS 'Share of subjects whose time or cost was predicted too small (a rate: too high), percent';
COMMENT ON COLUMN report.leaderboard.p90_underestimate IS 'In 90 percent of subjects time or cost is underestimated by no more than this, percent of what was measured; 0: not at all';
COMMENT ON COLUMN report.leaderboard.coverage_percent IS 'Share of subjects whose measurement lies in the predicted interval, percent; NULL: no intervals';
COMMENT ON COLUMN report.leaderboard.coverage_n IS 'Number of subjects with an interval';
COMMENT ON COLUMN report.leaderboard.noise_floor IS 'Mean noise floor of the subjects that have one, percent';
COMMENT ON COLUMN report.leaderboard.noise_n IS 'Number of subjects that have one';
