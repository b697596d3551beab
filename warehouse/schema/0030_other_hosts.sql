-- Systems may learn from steps on other hosts. A node type there is another type than the one of that name here, as in
-- models.predictddl.observed: it is called type@host. A fit that saw only such types says nothing of this host.

CREATE MACRO report.type_on(node_type, measured_on, asked_of) AS
    CASE WHEN measured_on <> asked_of THEN node_type || '@' || measured_on[:8] ELSE node_type END;

CREATE OR REPLACE MACRO report.split_of(
    subject_ids, dnns, families, node_types, world_sizes, subject, dnn, family, node_type, world_size
) AS
    CASE
        WHEN len(node_types) > 0 AND list_bool_and(list_transform(node_types, lambda one: regexp_matches(one, '@[^@ ]{1,8}$')))
            THEN 'held_out_host'
        WHEN list_contains(subject_ids, subject) THEN 'seen'
        WHEN NOT list_contains(dnns, dnn)
            AND NOT list_contains(families, family) THEN 'held_out_family'
        WHEN dnn IS NOT NULL AND NOT coalesce(list_contains(dnns, dnn), false)
            THEN 'held_out_dnn'
        WHEN NOT list_contains(node_types, node_type) THEN 'held_out_node_type'
        WHEN NOT list_contains(world_sizes, world_size) THEN 'held_out_world_size'
        ELSE 'held_out_scenario'
    END;

CREATE OR REPLACE VIEW report.fitted AS
WITH saw AS (
    SELECT fit_id, backend, host_id, unnest(run_ids) AS run_id FROM fit.fit
),
seen AS (
    SELECT
        fit_id, saw.backend, 'scenario' AS subject_kind, scenario_id AS subject_id,
        run.host_id AS measured_on, saw.host_id AS asked_of
    FROM saw JOIN raw.run AS run USING (run_id)
    UNION ALL
    SELECT DISTINCT fit_id, backend, 'external', sha256(subject::VARCHAR)[:16], host_id, host_id
    FROM saw JOIN raw.external USING (run_id)
)
SELECT
    fit_id, any_value(backend) AS backend,
    coalesce(list(DISTINCT subject_id) FILTER (measured_on IS NOT DISTINCT FROM asked_of), []) AS subject_ids,
    coalesce(list(DISTINCT dnn), []) AS dnns,
    CASE WHEN bool_and(family IS NOT NULL) THEN list(DISTINCT family) END AS families,
    coalesce(list(DISTINCT report.type_on(node_type, measured_on, asked_of)), []) AS node_types,
    coalesce(list(DISTINCT world_size), []) AS world_sizes
FROM seen
JOIN report.subject USING (subject_kind, subject_id)
GROUP BY fit_id;
COMMENT ON VIEW report.fitted IS 'What each fit saw, one row per fit that saw a scenario or a subject of an imported file';
COMMENT ON COLUMN report.fitted.fit_id IS 'The fit';
COMMENT ON COLUMN report.fitted.backend IS 'Backend the rows it saw came from';
COMMENT ON COLUMN report.fitted.subject_ids IS 'Scenarios and imported subjects of the runs it saw on the host of the fit';
COMMENT ON COLUMN report.fitted.dnns IS 'Their networks';
COMMENT ON COLUMN report.fitted.families IS 'Families of those networks; NULL: the family of one is not known';
COMMENT ON COLUMN report.fitted.node_types IS 'Their worker node types; type@host where it is not the host of the fit';
COMMENT ON COLUMN report.fitted.world_sizes IS 'Their numbers of workers';


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
    SELECT
        fit_id, any_value(sealed.host_id) AS asked_of,
        coalesce(any_value(sealed.run_ids), any_value(fit.run_ids)) AS run_ids
    FROM pred.sealed AS sealed LEFT JOIN fit.fit AS fit USING (fit_id)
    GROUP BY fit_id
),
fitted AS (
    SELECT
        fit_id,
        coalesce(list(DISTINCT subject_id) FILTER (run.host_id = asked_of), []) AS subject_ids,
        coalesce(list(DISTINCT dnn), []) AS dnns,
        CASE WHEN bool_and(family IS NOT NULL) THEN list(DISTINCT family) END AS families,
        coalesce(list(DISTINCT report.type_on(node_type, run.host_id, asked_of)), []) AS node_types,
        coalesce(list(DISTINCT world_size), []) AS world_sizes
    FROM (SELECT fit_id, asked_of, unnest(run_ids) AS run_id FROM rested)
    JOIN raw.run AS run USING (run_id)
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
COMMENT ON COLUMN report.accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host';
COMMENT ON COLUMN report.asked_accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host';
COMMENT ON COLUMN fit.fit.host_id IS 'Host that its forecasts are about; runs may be of others (raw.run)';
