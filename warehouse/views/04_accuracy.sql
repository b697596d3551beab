-- How wrong forecasts were: by study, merely asked for, sealed, and by system.

-- As of the first load of each run: per system, the newest prediction of its study and round is judged, and the
-- newest that was merely asked for. The order is the warehouse's own: a clock that jumps back lets no prediction
-- see its measurement. Words of an imported file mean one thing within its study only.
CREATE VIEW report.judged AS
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

CREATE VIEW report.fitted AS
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
),
fitted AS (
    SELECT
        fit_id, any_value(backend) AS backend,
        coalesce(list(DISTINCT subject_id) FILTER (measured_on IS NOT DISTINCT FROM asked_of), []) AS subject_ids,
        coalesce(list(DISTINCT dnn), []) AS dnns,
        CASE WHEN bool_and(family IS NOT NULL) THEN list(DISTINCT family) END AS families,
        coalesce(list(DISTINCT report.type_on(node_type, measured_on, asked_of)), []) AS node_types,
        coalesce(list(DISTINCT world_size), []) AS world_sizes
    FROM seen
    JOIN report.subject USING (subject_kind, subject_id)
    GROUP BY fit_id
)
FROM fitted LEFT JOIN report.fit_devices USING (fit_id);
COMMENT ON VIEW report.fitted IS 'What each fit saw, one row per fit that saw a scenario or a subject of an imported file';
COMMENT ON COLUMN report.fitted.fit_id IS 'The fit';
COMMENT ON COLUMN report.fitted.backend IS 'Backend the rows it saw came from';
COMMENT ON COLUMN report.fitted.subject_ids IS 'Scenarios and imported subjects of the runs it saw on the host of the fit';
COMMENT ON COLUMN report.fitted.dnns IS 'Their networks';
COMMENT ON COLUMN report.fitted.families IS 'Families of those networks; NULL: the family of one is not known';
COMMENT ON COLUMN report.fitted.node_types IS 'Their worker node types; type@host where it is not the host of the fit';
COMMENT ON COLUMN report.fitted.world_sizes IS 'Their numbers of workers';
COMMENT ON COLUMN report.fitted.devices IS 'Devices whose operators it saw, of fits to measurements of others: node types, or families of them, each with half or full; NULL: it is no such fit';

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
            subject_id, subject.dnn, subject.family, subject.node_type, subject.world_size,
            fitted.devices, subject.device
        ) AS split,
        noise_floor_percent, noise_runs, prediction_id, fit_id, model_version, study, repeat, made_at
    FROM compared
    JOIN report.subject AS subject USING (subject_kind, subject_id)
    LEFT JOIN (SELECT * EXCLUDE (backend) FROM report.fitted) AS fitted USING (fit_id)
    WHERE merely_asked IS NULL OR (study IS NULL) = merely_asked;

CREATE VIEW report.accuracy AS SELECT * FROM report.verdict(false);
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
COMMENT ON COLUMN report.accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host';
COMMENT ON COLUMN report.accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host, few_on_host if it saw steps of other hosts and of this one; held_out_device if it knows the GPU by its data sheet alone, in that precision and for networks of images or of words';

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
COMMENT ON COLUMN report.asked_accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host';
COMMENT ON COLUMN report.asked_accuracy.split IS 'How far the subject is from what the fit saw: seen, held_out_scenario, held_out_world_size, held_out_node_type, held_out_dnn, or held_out_family where families are known; held_out_host if no step on this host, few_on_host if it saw steps of other hosts and of this one; held_out_device if it knows the GPU by its data sheet alone, in that precision and for networks of images or of words';

CREATE VIEW report.time_ratio AS
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
        paired.scenario_id, subject.dnn, subject.family, subject.node_type, subject.world_size,
        fitted.devices, subject.device
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

-- Others are refused when they are loaded; earlier versions took them.
CREATE MACRO report.is_forecast("value", low, high) AS
    isfinite(coalesce("value", 0)) AND isfinite(coalesce(low, 0)) AND isfinite(coalesce(high, 0));

CREATE VIEW report.sealed_accuracy AS
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
-- A fit of another home to the same measurements of others is the same fit.
timed AS (
    SELECT system, list_sort(run_ids) AS run_ids, any_value(devices) AS devices
    FROM fit.fit JOIN report.fit_devices USING (fit_id)
    GROUP BY ALL
),
split AS (
    SELECT
        sealed.prediction_id, sealed.file, sealed.scenario_id,
        CASE
            WHEN fitted.fit_id IS NOT NULL OR timed.devices IS NOT NULL THEN report.split_of(
                fitted.subject_ids, fitted.dnns, fitted.families, fitted.node_types, fitted.world_sizes,
                sealed.scenario_id, subject.dnn, subject.family, subject.node_type, subject.world_size,
                timed.devices, subject.device
            )
        END AS own
    FROM pred.sealed AS sealed
    LEFT JOIN fitted USING (fit_id)
    LEFT JOIN timed ON timed.system = sealed.system AND timed.run_ids = list_sort(sealed.run_ids)
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
    AND noise.host_id = sealed.host_id AND noise.metric = sealed.metric
WHERE report.is_forecast(sealed.value, sealed.low, sealed.high);
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
