-- Points that were measured while the host was busy count in no figure of how wrong forecasts were: sealed ones are
-- told apart by host_busy as in report.accuracy, and runs of a busy host are no ratio of measured to forecast time.

CREATE MACRO report.was_busy(idle_cpu_fraction, stolen_cpu_fraction) AS
    coalesce(idle_cpu_fraction < 0.20, false) OR coalesce(stolen_cpu_fraction > 0.02, false);

CREATE OR REPLACE VIEW report.sealed_accuracy AS
WITH later AS (
    SELECT
        sealed.prediction_id, avg(measured.value) AS measured, count(*) AS runs,
        bool_or(report.was_busy(idle_cpu_fraction, stolen_cpu_fraction)) AS host_busy,
        min(run.started_at) AS first_measured_at
    FROM pred.sealed AS sealed
    JOIN report.measured AS measured USING (scenario_id, study, backend, host_id, metric)
    JOIN raw.run AS run ON run.run_id = measured.run_id AND run.started_at > sealed.sealed_at
    GROUP BY sealed.prediction_id
),
rested AS (
    SELECT fit_id, coalesce(any_value(sealed.run_ids), any_value(fit.run_ids)) AS run_ids
    FROM pred.sealed AS sealed LEFT JOIN fit.fit AS fit USING (fit_id)
    GROUP BY fit_id
),
fitted AS (
    SELECT
        fit_id,
        list(DISTINCT subject_id) AS subject_ids,
        coalesce(list(DISTINCT dnn), []) AS dnns,
        CASE WHEN bool_and(family IS NOT NULL) THEN list(DISTINCT family) END AS families,
        coalesce(list(DISTINCT node_type), []) AS node_types,
        coalesce(list(DISTINCT world_size), []) AS world_sizes
    FROM (SELECT fit_id, unnest(run_ids) AS run_id FROM rested)
    JOIN raw.run USING (run_id)
    JOIN report.subject AS known ON known.subject_kind = 'scenario' AND known.subject_id = run.scenario_id
    GROUP BY fit_id
),
split AS (
    SELECT
        sealed.prediction_id, sealed.file, sealed.scenario_id,
        CASE
            WHEN fitted.fit_id IS NOT NULL THEN report.split_of(
                fitted.subject_ids, fitted.dnns, fitted.families, fitted.node_types, fitted.world_sizes,
                sealed.scenario_id, subject.dnn, subject.family, subject.node_type, subject.world_size
            )
        END AS own
    FROM pred.sealed AS sealed
    LEFT JOIN fitted USING (fit_id)
    LEFT JOIN report.subject AS subject
        ON subject.subject_kind = 'scenario' AND subject.subject_id = sealed.scenario_id
),
usual AS (
    SELECT file, scenario_id, mode(own) AS split FROM split GROUP BY file, scenario_id
)
SELECT
    sealed.system, sealed.study, sealed.backend, sealed.host_id, sealed.scenario_id, sealed.label,
    sealed.metric, sealed.unit, sealed.value AS predicted, sealed.low, sealed.high, later.measured,
    later.runs, 100 * (sealed.value - measured) / nullif(measured, 0) AS error_percent,
    abs(error_percent) AS ape_percent,
    measured BETWEEN sealed.low AND sealed.high AS inside_interval, later.host_busy,
    coalesce(split.own, usual.split) AS split,
    noise.noise_floor_percent, noise.noise_runs, sealed.prediction_id, sealed.sealed_at,
    later.first_measured_at
FROM pred.sealed AS sealed
JOIN later USING (prediction_id)
JOIN split USING (prediction_id)
JOIN usual ON usual.file = sealed.file AND usual.scenario_id = sealed.scenario_id
LEFT JOIN report.noise AS noise
    ON noise.scenario_id = sealed.scenario_id AND noise.backend = sealed.backend
    AND noise.host_id = sealed.host_id AND noise.metric = sealed.metric;
COMMENT ON VIEW report.sealed_accuracy IS 'Sealed forecasts as they were published, beside the mean of what runs measured that began later; one row per forecast';
COMMENT ON COLUMN report.sealed_accuracy.system IS 'Performance model that forecast';
COMMENT ON COLUMN report.sealed_accuracy.study IS 'Study that asked for it, and whose runs judge it';
COMMENT ON COLUMN report.sealed_accuracy.backend IS 'Where it was measured';
COMMENT ON COLUMN report.sealed_accuracy.host_id IS 'Host that measured';
COMMENT ON COLUMN report.sealed_accuracy.scenario_id IS 'Hash of the scenario';
COMMENT ON COLUMN report.sealed_accuracy.label IS 'Short name of the scenario';
COMMENT ON COLUMN report.sealed_accuracy.metric IS 'What was forecast and measured';
COMMENT ON COLUMN report.sealed_accuracy.unit IS 'Unit of predicted, low, high and measured';
COMMENT ON COLUMN report.sealed_accuracy.predicted IS 'The forecast, in the unit of this row; NULL: no more than low and high';
COMMENT ON COLUMN report.sealed_accuracy.low IS 'Lower end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.sealed_accuracy.high IS 'Upper end of its interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN report.sealed_accuracy.measured IS 'Mean of all runs of the study that began after the file was written, in the unit of this row';
COMMENT ON COLUMN report.sealed_accuracy.runs IS 'How many those are';
COMMENT ON COLUMN report.sealed_accuracy.error_percent IS 'Of the forecast, signed, percent of what was measured';
COMMENT ON COLUMN report.sealed_accuracy.ape_percent IS 'Absolute error, percent of what was measured';
COMMENT ON COLUMN report.sealed_accuracy.inside_interval IS 'Whether what was measured is in the interval; NULL: there is none';
COMMENT ON COLUMN report.sealed_accuracy.host_busy IS 'Whether a run that judges it left less than 0.20 of the host''s processor time idle, or lost more than 0.02 of it to the hypervisor (means of its windows)';
COMMENT ON COLUMN report.sealed_accuracy.split IS 'How far the scenario is from the runs that the forecast rests on, as in report.accuracy; of files that do not name them and of fits that are not in this warehouse, as most systems of the file have it; NULL: not known';
COMMENT ON COLUMN report.sealed_accuracy.noise_floor_percent IS 'How far repeated measurements of it are apart, percent, as in report.noise; NULL: it was measured once';
COMMENT ON COLUMN report.sealed_accuracy.noise_runs IS 'Number of runs behind the noise floor';
COMMENT ON COLUMN report.sealed_accuracy.prediction_id IS 'The forecast, in pred.sealed';
COMMENT ON COLUMN report.sealed_accuracy.sealed_at IS 'When the file was written, UTC';
COMMENT ON COLUMN report.sealed_accuracy.first_measured_at IS 'When the first of these runs began, UTC';

CREATE OR REPLACE VIEW report.time_ratio AS
WITH paired AS (
    SELECT
        prediction.prediction_id, prediction.fit_id, prediction.system, prediction.study,
        prediction.repeat, prediction.metric, prediction.value AS predicted, prediction.sequence,
        measured.run_id, measured.scenario_id, measured.backend, measured.host_id,
        measured.value AS measured, measured.started_at
    FROM report.measured AS measured
    JOIN meta.loaded AS loaded USING (run_id)
    JOIN pred.ledger AS prediction
        ON prediction.subject_kind = 'scenario'
        AND prediction.subject_id = measured.scenario_id
        AND prediction.backend = measured.backend
        AND prediction.host_id = measured.host_id
        AND prediction.metric = measured.metric
        AND prediction.study = measured.study
        AND prediction.sequence < loaded.sequence
    WHERE prediction.value > 0 AND measured.value > 0
        AND NOT report.was_busy(measured.idle_cpu_fraction, measured.stolen_cpu_fraction)
    QUALIFY prediction.sequence = max(prediction.sequence) OVER (
        PARTITION BY measured.run_id, prediction.metric, prediction.system, prediction.repeat
    )
),
saw AS (
    SELECT fit_id, run.started_at
    FROM (SELECT fit_id, unnest(run_ids) AS run_id FROM fit.fit)
    JOIN raw.run AS run USING (run_id)
),
apart AS (
    SELECT
        prediction_id, paired.run_id,
        min(abs(epoch(paired.started_at) - epoch(saw.started_at))) / 3600 AS hours_apart
    FROM paired JOIN saw USING (fit_id)
    GROUP BY ALL
)
SELECT
    paired.system, paired.backend, paired.host_id, paired.scenario_id, paired.metric,
    report.split_of(
        fitted.subject_ids, fitted.dnns, fitted.families, fitted.node_types, fitted.world_sizes,
        paired.scenario_id, subject.dnn, subject.family, subject.node_type, subject.world_size
    ) AS split,
    CASE WHEN paired.metric LIKE '%\_per\_s' ESCAPE '\' THEN predicted / measured ELSE measured / predicted END
        AS ratio,
    hours_apart,
    paired.started_at AS measured_at, paired.study, paired.repeat, paired.prediction_id, paired.run_id
FROM paired
JOIN apart USING (prediction_id, run_id)
JOIN report.subject AS subject
    ON subject.subject_kind = 'scenario' AND subject.subject_id = paired.scenario_id
LEFT JOIN report.fitted AS fitted USING (fit_id)
WHERE paired.metric LIKE '%\_per\_s' ESCAPE '\' OR paired.metric LIKE '%\_s' ESCAPE '\';
COMMENT ON VIEW report.time_ratio IS 'How much longer training took than was forecast, one row per forecast of a study and run of its scenario there that was loaded later, of whatever round; none of a run while the host was busy';
COMMENT ON COLUMN report.time_ratio.system IS 'Performance model that predicted';
COMMENT ON COLUMN report.time_ratio.backend IS 'Where it was measured';
COMMENT ON COLUMN report.time_ratio.host_id IS 'Host that measured';
COMMENT ON COLUMN report.time_ratio.scenario_id IS 'What was predicted and measured';
COMMENT ON COLUMN report.time_ratio.metric IS 'What was predicted and measured: a time or a rate';
COMMENT ON COLUMN report.time_ratio.split IS 'How far the scenario is from what the fit saw, as in report.accuracy';
COMMENT ON COLUMN report.time_ratio.ratio IS 'Measured over forecast, as times: above 1, training took longer than was forecast';
COMMENT ON COLUMN report.time_ratio.hours_apart IS 'Hours between the start of the run that was measured and of the nearest that the fit saw, before or after it';
COMMENT ON COLUMN report.time_ratio.measured_at IS 'When the measuring run began, UTC';
COMMENT ON COLUMN report.time_ratio.study IS 'Study of both';
COMMENT ON COLUMN report.time_ratio.repeat IS 'Round that the forecast was made for';
COMMENT ON COLUMN report.time_ratio.prediction_id IS 'The forecast, in pred.ledger';
COMMENT ON COLUMN report.time_ratio.run_id IS 'The run';
