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
