-- What systems and rules of thumb would have rented, judged.

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
