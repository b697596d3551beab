-- How wrong forecasts were on later days, and what was chosen by forecasts, judged by what was measured.

-- A forecast is compared with each run of its scenario in its study, of whatever round: other rounds are often of
-- other days. It was in the ledger before the run was loaded.
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
COMMENT ON VIEW report.time_ratio IS 'How much longer training took than was forecast, one row per forecast of a study and run of its scenario there that was loaded later, of whatever round';
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

CREATE TABLE pred.decision (
    question_id VARCHAR NOT NULL,
    study VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    backend VARCHAR NOT NULL,
    host_id VARCHAR NOT NULL,
    framework VARCHAR NOT NULL,
    strategy VARCHAR NOT NULL,
    dnn VARCHAR NOT NULL,
    image_size INTEGER NOT NULL,
    batch_size INTEGER NOT NULL,
    link_mbps DOUBLE,
    samples BIGINT NOT NULL,
    minimize VARCHAR NOT NULL CHECK (minimize IN ('time', 'cost')),
    max_hours DOUBLE CHECK (isfinite(max_hours)),
    budget_usd DOUBLE CHECK (isfinite(budget_usd)),
    seed BIGINT NOT NULL,
    options VARCHAR[] NOT NULL,
    usd_per_hour DOUBLE[] NOT NULL,
    chooser VARCHAR NOT NULL,
    late DOUBLE,
    choice VARCHAR,
    code_version VARCHAR NOT NULL,
    made_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE pred.decision IS 'What systems and rules of thumb would have rented of what a round measured, one row per question, chooser and how sure limits have to be';
COMMENT ON COLUMN pred.decision.question_id IS 'Hash of the question: columns from study to usd_per_hour';
COMMENT ON COLUMN pred.decision.study IS 'Study whose scenarios there are to choose from';
COMMENT ON COLUMN pred.decision.repeat IS 'Round of the study';
COMMENT ON COLUMN pred.decision.backend IS 'Where they were measured';
COMMENT ON COLUMN pred.decision.host_id IS 'Host that measured them';
COMMENT ON COLUMN pred.decision.framework IS 'tensorflow or pytorch';
COMMENT ON COLUMN pred.decision.strategy IS 'How training is distributed';
COMMENT ON COLUMN pred.decision.dnn IS 'Network that is trained';
COMMENT ON COLUMN pred.decision.image_size IS 'Side of the square input images, pixels';
COMMENT ON COLUMN pred.decision.batch_size IS 'Images per step and device';
COMMENT ON COLUMN pred.decision.link_mbps IS 'Shaped speed of each link, megabits per second; NULL: not shaped';
COMMENT ON COLUMN pred.decision.samples IS 'Samples of the job';
COMMENT ON COLUMN pred.decision.minimize IS 'What is made small: time or cost';
COMMENT ON COLUMN pred.decision.max_hours IS 'Deadline, hours of training; NULL: none';
COMMENT ON COLUMN pred.decision.budget_usd IS 'Budget, US dollars; NULL: none';
COMMENT ON COLUMN pred.decision.seed IS 'Seed that the limits were drawn from';
COMMENT ON COLUMN pred.decision.options IS 'Scenarios that there are to choose from';
COMMENT ON COLUMN pred.decision.usd_per_hour IS 'What all nodes of each of them cost on demand, US dollars per hour';
COMMENT ON COLUMN pred.decision.chooser IS 'Who chose: a system by its own forecasts; recommend: for each scenario the system that had erred least; cheapest, most powerful, linear scaling: rules of thumb';
COMMENT ON COLUMN pred.decision.late IS 'Largest probability of breaking a limit that was accepted, 0 to 1; NULL: forecasts counted as they are';
COMMENT ON COLUMN pred.decision.choice IS 'The scenario that was chosen; NULL: none';
COMMENT ON COLUMN pred.decision.code_version IS 'Version of Stepcast that let them choose';
COMMENT ON COLUMN pred.decision.made_at IS 'When it did, UTC; the forecasts are older than what judges them';

CREATE VIEW report.decision AS
WITH asked AS (
    SELECT DISTINCT ON (question_id) * EXCLUDE (chooser, late, choice) FROM pred.decision
),
option AS (
    SELECT
        * EXCLUDE (options, usd_per_hour),
        unnest(options) AS scenario_id, unnest(usd_per_hour) AS usd_per_hour
    FROM asked
),
run AS (
    SELECT scenario_id, study, repeat, backend, host_id, metric, avg(value) AS value
    FROM report.measured
    WHERE metric IN ('throughput_steps_per_s', 'step_time_s')
    GROUP BY ALL
),
timed AS (
    SELECT
        question_id, scenario_id, scenario.label, option.max_hours, option.budget_usd, option.minimize,
        CASE run.metric
            WHEN 'throughput_steps_per_s' THEN samples / (run.value * option.batch_size)
            ELSE samples * run.value / (option.batch_size * scenario.workers * scenario.devices_per_node)
        END / 3600 AS hours,
        hours * option.usd_per_hour AS cost_usd,
        hours > option.max_hours * (1 + 1e-9) AS missed_deadline,
        cost_usd > option.budget_usd * (1 + 1e-9) AS blown_budget,
        CASE option.minimize WHEN 'time' THEN hours ELSE cost_usd END AS objective
    FROM option
    JOIN run USING (scenario_id, study, repeat, backend, host_id)
    JOIN report.scenario AS scenario USING (scenario_id)
),
least AS (
    SELECT question_id, min(objective) AS objective, min_by(label, objective) AS label
    FROM timed
    WHERE NOT coalesce(missed_deadline, false) AND NOT coalesce(blown_budget, false)
    GROUP BY question_id
)
SELECT
    decision.chooser, decision.late, decision.question_id, decision.study, decision.repeat, decision.backend,
    decision.framework, decision.strategy, decision.dnn, decision.image_size, decision.batch_size,
    decision.minimize, decision.max_hours, decision.budget_usd, decision.seed,
    len(decision.options) AS options, timed.label AS choice, timed.hours, timed.cost_usd,
    timed.missed_deadline, timed.blown_budget, least.label AS best,
    CASE
        WHEN NOT coalesce(timed.missed_deadline, false) AND NOT coalesce(timed.blown_budget, false)
            THEN 100 * (timed.objective / least.objective - 1)
    END AS regret_percent
FROM pred.decision AS decision
JOIN least USING (question_id)
LEFT JOIN timed ON timed.question_id = decision.question_id AND timed.scenario_id = decision.choice;
COMMENT ON VIEW report.decision IS 'Decisions judged by what was measured, one row per question, chooser and how sure limits have to be';
COMMENT ON COLUMN report.decision.chooser IS 'Who chose, as in pred.decision';
COMMENT ON COLUMN report.decision.late IS 'Largest probability of breaking a limit that was accepted; NULL: forecasts counted as they are';
COMMENT ON COLUMN report.decision.question_id IS 'The question';
COMMENT ON COLUMN report.decision.study IS 'Study whose scenarios there were to choose from';
COMMENT ON COLUMN report.decision.repeat IS 'Round of the study';
COMMENT ON COLUMN report.decision.backend IS 'Where they were measured';
COMMENT ON COLUMN report.decision.framework IS 'tensorflow or pytorch';
COMMENT ON COLUMN report.decision.strategy IS 'How training is distributed';
COMMENT ON COLUMN report.decision.dnn IS 'Network that is trained';
COMMENT ON COLUMN report.decision.image_size IS 'Side of the square input images, pixels';
COMMENT ON COLUMN report.decision.batch_size IS 'Images per step and device';
COMMENT ON COLUMN report.decision.minimize IS 'What is made small: time or cost';
COMMENT ON COLUMN report.decision.max_hours IS 'Deadline, hours; NULL: none';
COMMENT ON COLUMN report.decision.budget_usd IS 'Budget, US dollars; NULL: none';
COMMENT ON COLUMN report.decision.seed IS 'Seed that the limits were drawn from';
COMMENT ON COLUMN report.decision.options IS 'Number of scenarios that there were to choose from';
COMMENT ON COLUMN report.decision.choice IS 'The choice; NULL: none, though the limits can be kept';
COMMENT ON COLUMN report.decision.hours IS 'Hours that the job takes there, as measured';
COMMENT ON COLUMN report.decision.cost_usd IS 'US dollars that it costs there, as measured';
COMMENT ON COLUMN report.decision.missed_deadline IS 'Whether that is beyond the deadline; NULL: there is none, or no choice';
COMMENT ON COLUMN report.decision.blown_budget IS 'Whether that is above the budget; NULL: there is none, or no choice';
COMMENT ON COLUMN report.decision.best IS 'The best scenario that keeps the limits, as measured';
COMMENT ON COLUMN report.decision.regret_percent IS 'By how much the choice takes longer, or costs more, than the best, percent; NULL: it breaks a limit, or there is none';
