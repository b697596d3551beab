-- A study is judged by its own forecasts: a run judges those of its own study and round, and what somebody merely
-- asked for is judged apart.
ALTER TABLE pred.ledger ALTER COLUMN study DROP NOT NULL;
ALTER TABLE pred.ledger ALTER COLUMN repeat DROP NOT NULL;
COMMENT ON COLUMN pred.ledger.study IS 'Study that asked for it; NULL: it was merely asked for, and no board of a study has it';
COMMENT ON COLUMN pred.ledger.repeat IS 'Round of the study, from 1; NULL: it was merely asked for';

-- Nobody may ever measure what was asked for: its words are kept here.
CREATE TABLE pred.asked_scenario (
    scenario_id VARCHAR PRIMARY KEY,
    label VARCHAR NOT NULL,
    canonical JSON NOT NULL
);
COMMENT ON TABLE pred.asked_scenario IS 'Scenarios that were merely asked for, one row each';
COMMENT ON COLUMN pred.asked_scenario.scenario_id IS 'Hash of the canonical JSON';
COMMENT ON COLUMN pred.asked_scenario.label IS 'Short name for tables';
COMMENT ON COLUMN pred.asked_scenario.canonical IS 'Canonical JSON: keys sorted, no white space';

-- Equal fits and forecasts are written once, and name the code that made them first. What later code made again, the
-- same, need not be made again by that code.
CREATE TABLE meta.remade (
    key VARCHAR,
    code_version VARCHAR,
    PRIMARY KEY (key, code_version)
);
COMMENT ON TABLE meta.remade IS 'Fits and predictions that other code than the first made again, the same; one row per version of the code';
COMMENT ON COLUMN meta.remade.key IS 'A fit_id of fit.fit, or a prediction_id of pred.ledger';
COMMENT ON COLUMN meta.remade.code_version IS 'Version of Stepcast that made it again';

-- As of the first load of each run: per system, the newest prediction of its study and round is judged, and the
-- newest that was merely asked for. The order is the warehouse's own: a clock that jumps back lets no prediction
-- see its measurement. Words of an imported file mean one thing within its study only.
CREATE OR REPLACE VIEW report.judged AS
WITH measured AS (
    SELECT
        'scenario' AS subject_kind, scenario_id AS subject_id, study, repeat, run_id, backend, host_id,
        metric, value, spread_percent, idle_cpu_fraction, stolen_cpu_fraction,
        noise_floor_percent, noise_runs
    FROM report.measured
    LEFT JOIN report.noise AS noise USING (scenario_id, backend, host_id, metric)
    UNION ALL
    SELECT
        'external', subject_id, study, NULL, run_id, backend, host_id, metric, value, NULL, NULL,
        NULL, noise_floor_percent, noise_runs
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
    AND (
        prediction.study IS NULL
        OR prediction.study = measured.study
        AND (measured.repeat IS NULL OR prediction.repeat = measured.repeat)
    )
    AND prediction.sequence < loaded.sequence
-- Not row_number() = 1: DuckDB 1.5.5 turns that into a join which loses rows here.
QUALIFY prediction.sequence = max(prediction.sequence) OVER (
    PARTITION BY measured.run_id, measured.subject_id, measured.metric, prediction.system,
        prediction.study IS NULL
);
COMMENT ON VIEW report.judged IS 'Which run judges which prediction, one row per run, subject, metric, system and whether it was merely asked for';
COMMENT ON COLUMN report.judged.prediction_id IS 'Newest prediction of its system, for this round of this study or merely asked for, that was in the ledger before the run was loaded';
COMMENT ON COLUMN report.judged.run_id IS 'The run that judges it';
COMMENT ON COLUMN report.judged.backend IS 'Where it was measured';
COMMENT ON COLUMN report.judged.value IS 'What the run measured, in the unit of the prediction';
COMMENT ON COLUMN report.judged.spread_percent IS 'Within-run spread, percent';
COMMENT ON COLUMN report.judged.idle_cpu_fraction IS 'Part of the host''s processor time that was idle during the run, 0 to 1';
COMMENT ON COLUMN report.judged.stolen_cpu_fraction IS 'Part of it that the host''s hypervisor took, 0 to 1';
COMMENT ON COLUMN report.judged.noise_floor_percent IS 'Noise floor of what was measured, percent, as in report.noise or report.external';
COMMENT ON COLUMN report.judged.noise_runs IS 'Number of runs or repeats behind it';

-- How far a subject is from what a fit saw; what is NULL is not known.
CREATE MACRO report.split_of(
    subject_ids, dnns, families, node_types, world_sizes, subject, dnn, family, node_type, world_size
) AS
    CASE
        WHEN list_contains(subject_ids, subject) THEN 'seen'
        WHEN NOT list_contains(dnns, dnn)
            AND NOT list_contains(families, family) THEN 'held_out_family'
        WHEN dnn IS NOT NULL AND NOT coalesce(list_contains(dnns, dnn), false)
            THEN 'held_out_dnn'
        WHEN NOT list_contains(node_types, node_type) THEN 'held_out_node_type'
        WHEN NOT list_contains(world_sizes, world_size) THEN 'held_out_world_size'
        ELSE 'held_out_scenario'
    END;

CREATE MACRO report.verdict(merely_asked) AS TABLE
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
        report.split_of(
            fitted.subject_ids, fitted.dnns, fitted.families, fitted.node_types, fitted.world_sizes,
            subject_id, subject.dnn, subject.family, subject.node_type, subject.world_size
        ) AS split,
        noise_floor_percent, noise_runs, prediction_id, fit_id, model_version, study, repeat, made_at
    FROM compared
    JOIN report.subject AS subject USING (subject_kind, subject_id)
    LEFT JOIN (SELECT * EXCLUDE (backend) FROM report.fitted) AS fitted USING (fit_id)
    WHERE (study IS NULL) = merely_asked;

CREATE OR REPLACE VIEW report.accuracy AS SELECT * FROM report.verdict(false);
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
COMMENT ON COLUMN report.accuracy.predicted IS 'The prediction, in the unit of this row; NULL: the system says no more than low and high, and counts in no mean';
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


CREATE VIEW report.asked_accuracy AS
SELECT * EXCLUDE (subject_kind, subject_id, study, repeat) FROM report.verdict(true);
COMMENT ON VIEW report.asked_accuracy IS 'What was merely asked for beside what was measured after it, one row per judged prediction; no board has them';
COMMENT ON COLUMN report.asked_accuracy.system IS 'Performance model that predicted';
COMMENT ON COLUMN report.asked_accuracy.backend IS 'Where it was measured';
COMMENT ON COLUMN report.asked_accuracy.host_id IS 'Host that measured';
COMMENT ON COLUMN report.asked_accuracy.scenario_id IS 'Which scenario';
COMMENT ON COLUMN report.asked_accuracy.label IS 'Short name of the scenario';
COMMENT ON COLUMN report.asked_accuracy.metric IS 'What was predicted and measured';
COMMENT ON COLUMN report.asked_accuracy.unit IS 'Unit of predicted, low, high and measured';
COMMENT ON COLUMN report.asked_accuracy.predicted IS 'The prediction, in the unit of this row; NULL: the system says no more than low and high, and counts in no mean';
COMMENT ON COLUMN report.asked_accuracy.low IS 'Lower end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.asked_accuracy.high IS 'Upper end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.asked_accuracy.measured IS 'Mean of the runs that judge it, in the unit of this row';
COMMENT ON COLUMN report.asked_accuracy.error_percent IS '(predicted - measured) / measured, percent';
COMMENT ON COLUMN report.asked_accuracy.ape_percent IS 'Size of the error, percent';
COMMENT ON COLUMN report.asked_accuracy.time_error_percent IS 'The same error in time or cost, percent: of a rate, that of its inverse; negative: underestimated; NULL: the metric is none of these';
COMMENT ON COLUMN report.asked_accuracy.spread_percent IS 'Within-run spread, percent, mean of the runs that judge it';
COMMENT ON COLUMN report.asked_accuracy.inside_interval IS 'Whether measured lies between low and high; NULL: no interval';
COMMENT ON COLUMN report.asked_accuracy.runs IS 'Number of runs that judge it';
COMMENT ON COLUMN report.asked_accuracy.host_busy IS 'Whether a run that judges it left less than 0.20 of the host''s processor time idle, or lost more than 0.02 of it to the hypervisor (means of its windows)';
COMMENT ON COLUMN report.asked_accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known';
COMMENT ON COLUMN report.asked_accuracy.noise_floor_percent IS 'Noise floor of the measurement, percent, as in report.judged';
COMMENT ON COLUMN report.asked_accuracy.noise_runs IS 'Number of runs or repeats behind the noise floor';
COMMENT ON COLUMN report.asked_accuracy.prediction_id IS 'The row in pred.ledger';
COMMENT ON COLUMN report.asked_accuracy.fit_id IS 'The fit it rests on';
COMMENT ON COLUMN report.asked_accuracy.model_version IS 'Version of the model code';
COMMENT ON COLUMN report.asked_accuracy.made_at IS 'When it was made, UTC';
