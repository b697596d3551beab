-- What was fitted, forecast and recommended. Rows are written once; nothing updates or deletes them,
-- and the chain of warehouse/chain.py shows it.
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
    code_version VARCHAR NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    sequence BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE fit.fit IS 'Fitted parameters, one row per fit of a model version to data';
COMMENT ON COLUMN fit.fit.fit_id IS 'Hash of everything but code_version, created_at, sequence and sha256';
COMMENT ON COLUMN fit.fit.system IS 'Performance model, for example async_sgd';
COMMENT ON COLUMN fit.fit.model_version IS 'Version of the model code';
COMMENT ON COLUMN fit.fit.parameters IS 'Fitted parameters; units are in their names';
COMMENT ON COLUMN fit.fit.run_ids IS 'Profile runs whose rows the fit saw';
COMMENT ON COLUMN fit.fit.row_filter IS 'Which rows of those runs it saw, in words or SQL';
COMMENT ON COLUMN fit.fit.row_count IS 'How many rows it saw';
COMMENT ON COLUMN fit.fit.data_hash IS 'Hash of the rows it saw';
COMMENT ON COLUMN fit.fit.backend IS 'Backend the rows came from';
COMMENT ON COLUMN fit.fit.host_id IS 'Host the rows were measured on';
COMMENT ON COLUMN fit.fit.code_version IS 'Version of Stepcast that fitted it first';
COMMENT ON COLUMN fit.fit.created_at IS 'When it was fitted first, UTC';
COMMENT ON COLUMN fit.fit.sequence IS 'Number of the row in the order of meta.chain';
COMMENT ON COLUMN fit.fit.sha256 IS 'SHA-256 over the chain''s row before it and this row, hex';

CREATE SCHEMA pred;

CREATE TABLE pred.system (
    name VARCHAR PRIMARY KEY,
    what VARCHAR NOT NULL,
    source VARCHAR NOT NULL
);
COMMENT ON TABLE pred.system IS 'Performance models that may predict, one row per registered name';
COMMENT ON COLUMN pred.system.name IS 'Name of the system';
COMMENT ON COLUMN pred.system.what IS 'What it does, in one line';
COMMENT ON COLUMN pred.system.source IS 'Paper and section, baseline, or whose it is';
INSERT INTO pred.system
FROM read_csv(getvariable('schema_folder') || '/0009_system.csv', header = true, all_varchar = true);

CREATE TABLE pred.price_snapshot (
    price_snapshot VARCHAR NOT NULL,
    provider VARCHAR NOT NULL,
    node_type VARCHAR NOT NULL,
    region VARCHAR,
    zone VARCHAR,
    market VARCHAR NOT NULL CHECK (market IN ('on_demand', 'spot')),
    usd_per_hour DOUBLE NOT NULL CHECK (isfinite(usd_per_hour)),
    observed_at TIMESTAMPTZ,
    source VARCHAR NOT NULL
);
COMMENT ON TABLE pred.price_snapshot IS 'Sets of prices that predictions and recommendations used, one row per price of a set';
COMMENT ON COLUMN pred.price_snapshot.price_snapshot IS 'Hash of all rows of the set';
COMMENT ON COLUMN pred.price_snapshot.provider IS 'Who rents it';
COMMENT ON COLUMN pred.price_snapshot.node_type IS 'Kind of machine';
COMMENT ON COLUMN pred.price_snapshot.region IS 'Region of the provider; NULL: not known';
COMMENT ON COLUMN pred.price_snapshot.zone IS 'Zone within the region; NULL: one price for the region';
COMMENT ON COLUMN pred.price_snapshot.market IS 'on_demand or spot';
COMMENT ON COLUMN pred.price_snapshot.usd_per_hour IS 'Price of one node, US dollars per hour';
COMMENT ON COLUMN pred.price_snapshot.observed_at IS 'When the price held, UTC; NULL: not known';
COMMENT ON COLUMN pred.price_snapshot.source IS 'Where it was read: an API, a file, or a paper and place';

CREATE TABLE pred.ledger (
    prediction_id VARCHAR PRIMARY KEY,
    system VARCHAR NOT NULL,
    model_version VARCHAR NOT NULL,
    fit_id VARCHAR NOT NULL,
    subject_kind VARCHAR NOT NULL
        CHECK (subject_kind IN ('scenario', 'operation', 'allreduce', 'job', 'external')),
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
    price_snapshot VARCHAR,
    code_version VARCHAR NOT NULL,
    made_at TIMESTAMPTZ NOT NULL,
    sequence BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL,
    CHECK (low <= high)
);
COMMENT ON TABLE pred.ledger IS 'Predictions, one row per fit, subject, metric, prices and round of a study';
COMMENT ON COLUMN pred.ledger.prediction_id IS 'Hash of everything but code_version, made_at, sequence and sha256';
COMMENT ON COLUMN pred.ledger.system IS 'Performance model that predicts, in pred.system';
COMMENT ON COLUMN pred.ledger.model_version IS 'Version of the model code';
COMMENT ON COLUMN pred.ledger.fit_id IS 'The fit it rests on, in fit.fit';
COMMENT ON COLUMN pred.ledger.subject_kind IS 'What is predicted: scenario, operation, allreduce, job, or external: a subject of an imported file';
COMMENT ON COLUMN pred.ledger.subject_id IS 'Identity of what is predicted: a scenario_id, or the hash of what describes another kind';
COMMENT ON COLUMN pred.ledger.backend IS 'Backend it is a prediction for';
COMMENT ON COLUMN pred.ledger.host_id IS 'Host it is a prediction for';
COMMENT ON COLUMN pred.ledger.study IS 'Study that asked for it';
COMMENT ON COLUMN pred.ledger.repeat IS 'Round of the study, from 1';
COMMENT ON COLUMN pred.ledger.metric IS 'What is forecast, named as in raw.sample';
COMMENT ON COLUMN pred.ledger.unit IS 'Unit of value, low and high';
COMMENT ON COLUMN pred.ledger.value IS 'The forecast, in the unit of this row';
COMMENT ON COLUMN pred.ledger.low IS 'Lower end of the interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN pred.ledger.high IS 'Upper end of the interval, in the unit of this row; NULL: none';
COMMENT ON COLUMN pred.ledger.price_snapshot IS 'Prices it used, in pred.price_snapshot; NULL: none';
COMMENT ON COLUMN pred.ledger.code_version IS 'Version of Stepcast that made it first';
COMMENT ON COLUMN pred.ledger.made_at IS 'When it was made first, UTC';
COMMENT ON COLUMN pred.ledger.sequence IS 'Number of the row in the order of meta.chain; only runs with a larger one judge it';
COMMENT ON COLUMN pred.ledger.sha256 IS 'SHA-256 over the chain''s row before it and this row, hex';

CREATE TABLE pred.recommendation (
    recommendation_id VARCHAR PRIMARY KEY,
    system VARCHAR NOT NULL,
    backend VARCHAR NOT NULL,
    job JSON NOT NULL,
    objective VARCHAR NOT NULL,
    constraints JSON NOT NULL,
    choice JSON,
    alternatives JSON NOT NULL,
    price_snapshot VARCHAR,
    fit_ids VARCHAR[] NOT NULL,
    code_version VARCHAR NOT NULL,
    made_at TIMESTAMPTZ NOT NULL,
    sequence BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL
);
COMMENT ON TABLE pred.recommendation IS 'Recommended configurations, one row per answer';
COMMENT ON COLUMN pred.recommendation.recommendation_id IS 'Hash of everything but code_version, made_at, sequence and sha256';
COMMENT ON COLUMN pred.recommendation.system IS 'Performance model that recommends, in pred.system';
COMMENT ON COLUMN pred.recommendation.backend IS 'Backend it recommends nodes of';
COMMENT ON COLUMN pred.recommendation.job IS 'What is to be trained: network, batch, samples or epochs';
COMMENT ON COLUMN pred.recommendation.objective IS 'What is made small, for example time or cost';
COMMENT ON COLUMN pred.recommendation.constraints IS 'Deadline, budget, capacity; units are in their names';
COMMENT ON COLUMN pred.recommendation.choice IS 'The recommended configuration with its forecast; NULL: nothing meets the constraints';
COMMENT ON COLUMN pred.recommendation.alternatives IS 'The next best configurations with their forecasts, a list';
COMMENT ON COLUMN pred.recommendation.price_snapshot IS 'Prices it used, in pred.price_snapshot; NULL: none';
COMMENT ON COLUMN pred.recommendation.fit_ids IS 'Fits it rests on, in fit.fit';
COMMENT ON COLUMN pred.recommendation.code_version IS 'Version of Stepcast that made it';
COMMENT ON COLUMN pred.recommendation.made_at IS 'When it was made first, UTC';
COMMENT ON COLUMN pred.recommendation.sequence IS 'Number of the row in the order of meta.chain';
COMMENT ON COLUMN pred.recommendation.sha256 IS 'SHA-256 over the chain''s row before it and this row, hex';
