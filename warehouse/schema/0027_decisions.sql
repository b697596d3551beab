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
