-- Forecasts that were published as files (`stepcast seal`), and what was measured after that. They are judged as they
-- were published, whatever later code forecasts.
CREATE TABLE pred.sealed (
    prediction_id VARCHAR PRIMARY KEY,
    system VARCHAR NOT NULL,
    model_version VARCHAR NOT NULL,
    fit_id VARCHAR NOT NULL,
    scenario_id VARCHAR NOT NULL,
    label VARCHAR NOT NULL,
    canonical JSON NOT NULL,
    backend VARCHAR NOT NULL,
    host_id VARCHAR NOT NULL,
    study VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    metric VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    value DOUBLE,
    low DOUBLE,
    high DOUBLE,
    code_version VARCHAR NOT NULL,
    made_at TIMESTAMPTZ NOT NULL,
    sequence BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL,
    sealed_at TIMESTAMPTZ NOT NULL,
    chain_sequence BIGINT NOT NULL,
    chain_sha256 VARCHAR NOT NULL,
    file VARCHAR NOT NULL
);
COMMENT ON TABLE pred.sealed IS 'Forecasts that were published as a file before what they are about was measured, one row each';
COMMENT ON COLUMN pred.sealed.prediction_id IS 'As in pred.ledger: hash of everything but code_version, made_at, sequence and sha256';
COMMENT ON COLUMN pred.sealed.system IS 'Performance model that forecast, in pred.system';
COMMENT ON COLUMN pred.sealed.model_version IS 'Version of the model code';
COMMENT ON COLUMN pred.sealed.fit_id IS 'The fit it rests on';
COMMENT ON COLUMN pred.sealed.scenario_id IS 'Hash of the scenario';
COMMENT ON COLUMN pred.sealed.label IS 'Short name of the scenario';
COMMENT ON COLUMN pred.sealed.canonical IS 'Canonical JSON of the scenario: keys sorted, no white space';
COMMENT ON COLUMN pred.sealed.backend IS 'Backend it is a forecast for';
COMMENT ON COLUMN pred.sealed.host_id IS 'Host it is a forecast for';
COMMENT ON COLUMN pred.sealed.study IS 'Study that asked for it';
COMMENT ON COLUMN pred.sealed.repeat IS 'Round of the study, from 1';
COMMENT ON COLUMN pred.sealed.metric IS 'What is forecast, named as in raw.sample';
COMMENT ON COLUMN pred.sealed.unit IS 'Unit of value, low and high';
COMMENT ON COLUMN pred.sealed.value IS 'The forecast, in the unit of this row; NULL: no more than low and high';
COMMENT ON COLUMN pred.sealed.low IS 'Lower end of the interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN pred.sealed.high IS 'Upper end of the interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN pred.sealed.code_version IS 'Version of Stepcast that made it';
COMMENT ON COLUMN pred.sealed.made_at IS 'When it was made, UTC';
COMMENT ON COLUMN pred.sealed.sequence IS 'Number of its row in the chain of the warehouse that made it';
COMMENT ON COLUMN pred.sealed.sha256 IS 'SHA-256 of its row in that chain, hex';
COMMENT ON COLUMN pred.sealed.sealed_at IS 'When the file was written, UTC';
COMMENT ON COLUMN pred.sealed.chain_sequence IS 'Number of the last row of that chain at that time';
COMMENT ON COLUMN pred.sealed.chain_sha256 IS 'SHA-256 of that row, hex: whoever knew it then can tell that nothing was changed';
COMMENT ON COLUMN pred.sealed.file IS 'Name of the file';
