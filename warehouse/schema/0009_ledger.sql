-- What was fitted and forecast. Rows are written once; nothing updates or deletes them.
CREATE SCHEMA fit;

CREATE TABLE fit.fit (
    fit_id VARCHAR PRIMARY KEY,
    system VARCHAR NOT NULL,
    model_version VARCHAR NOT NULL,
    parameters JSON NOT NULL,
    run_ids VARCHAR[] NOT NULL,
    row_filter VARCHAR NOT NULL,
    row_count BIGINT NOT NULL,
    data_hash VARCHAR NOT NULL,
    backend VARCHAR NOT NULL,
    host_id VARCHAR NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);
COMMENT ON TABLE fit.fit IS 'Fitted parameters, one row per fit of a model version to data';
COMMENT ON COLUMN fit.fit.fit_id IS 'Hash of everything but created_at';
COMMENT ON COLUMN fit.fit.system IS 'Performance model, for example async_sgd';
COMMENT ON COLUMN fit.fit.model_version IS 'Version of the model code';
COMMENT ON COLUMN fit.fit.parameters IS 'Fitted parameters; units are in their names';
COMMENT ON COLUMN fit.fit.run_ids IS 'Profile runs whose rows the fit saw';
COMMENT ON COLUMN fit.fit.row_filter IS 'Which rows of those runs it saw, in words or SQL';
COMMENT ON COLUMN fit.fit.row_count IS 'How many rows it saw';
COMMENT ON COLUMN fit.fit.data_hash IS 'Hash of the rows it saw';
COMMENT ON COLUMN fit.fit.backend IS 'Backend the rows came from';
COMMENT ON COLUMN fit.fit.host_id IS 'Host the rows were measured on';
COMMENT ON COLUMN fit.fit.created_at IS 'When it was fitted first, UTC';

CREATE SCHEMA pred;

CREATE TABLE pred.ledger (
    prediction_id VARCHAR PRIMARY KEY,
    system VARCHAR NOT NULL,
    model_version VARCHAR NOT NULL,
    fit_id VARCHAR NOT NULL,
    subject_kind VARCHAR NOT NULL,
    subject_id VARCHAR NOT NULL,
    backend VARCHAR NOT NULL,
    host_id VARCHAR NOT NULL,
    study VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    metric VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    value DOUBLE NOT NULL CHECK (isfinite(value)),
    low DOUBLE CHECK (isfinite(low)),
    high DOUBLE CHECK (isfinite(high)),
    made_at TIMESTAMPTZ NOT NULL,
    CHECK (low <= high)
);
COMMENT ON TABLE pred.ledger IS 'Predictions, one row per fit, subject, metric and round of a study';
COMMENT ON COLUMN pred.ledger.prediction_id IS 'Hash of everything but made_at';
COMMENT ON COLUMN pred.ledger.system IS 'Performance model that predicts';
COMMENT ON COLUMN pred.ledger.model_version IS 'Version of the model code';
COMMENT ON COLUMN pred.ledger.fit_id IS 'The fit it rests on, in fit.fit';
COMMENT ON COLUMN pred.ledger.subject_kind IS 'What is predicted: scenario';
COMMENT ON COLUMN pred.ledger.subject_id IS 'Identity of what is predicted: a scenario_id';
COMMENT ON COLUMN pred.ledger.backend IS 'Backend it is a prediction for';
COMMENT ON COLUMN pred.ledger.host_id IS 'Host it is a prediction for';
COMMENT ON COLUMN pred.ledger.study IS 'Study that asked for it';
COMMENT ON COLUMN pred.ledger.repeat IS 'Round of the study, from 1';
COMMENT ON COLUMN pred.ledger.metric IS 'What is forecast, named as in raw.sample';
COMMENT ON COLUMN pred.ledger.unit IS 'Unit of value, low and high';
COMMENT ON COLUMN pred.ledger.value IS 'The forecast, in the unit of this row';
COMMENT ON COLUMN pred.ledger.low IS 'Lower end of the interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN pred.ledger.high IS 'Upper end of the interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN pred.ledger.made_at IS 'When it was made first, UTC';
