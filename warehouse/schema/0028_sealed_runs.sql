-- Sealed forecasts name the runs that they rest on: how far their subjects are from these does not depend on whether
-- later code makes the same fit again.
ALTER TABLE pred.sealed ADD COLUMN run_ids VARCHAR[];
COMMENT ON COLUMN pred.sealed.run_ids IS 'Profile runs whose rows its fit saw; NULL: a file of before these were told';

CREATE OR REPLACE VIEW report.sealed_accuracy AS
WITH later AS (
    SELECT
        sealed.prediction_id, avg(measured.value) AS measured, count(*) AS runs,
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
    measured BETWEEN sealed.low AND sealed.high AS inside_interval,
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
COMMENT ON COLUMN report.sealed_accuracy.split IS 'How far the scenario is from the runs that the forecast rests on, as in report.accuracy; of files that do not name them and of fits that are not in this warehouse, as most systems of the file have it; NULL: not known';
COMMENT ON COLUMN report.sealed_accuracy.noise_floor_percent IS 'How far repeated measurements of it are apart, percent, as in report.noise; NULL: it was measured once';
COMMENT ON COLUMN report.sealed_accuracy.noise_runs IS 'Number of runs behind the noise floor';
COMMENT ON COLUMN report.sealed_accuracy.prediction_id IS 'The forecast, in pred.sealed';
COMMENT ON COLUMN report.sealed_accuracy.sealed_at IS 'When the file was written, UTC';
COMMENT ON COLUMN report.sealed_accuracy.first_measured_at IS 'When the first of these runs began, UTC';
