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

CREATE VIEW report.sealed_accuracy AS
WITH later AS (
    SELECT
        sealed.prediction_id, avg(measured.value) AS measured, count(*) AS runs,
        min(run.started_at) AS first_measured_at
    FROM pred.sealed AS sealed
    JOIN report.measured AS measured USING (scenario_id, study, backend, host_id, metric)
    JOIN raw.run AS run ON run.run_id = measured.run_id AND run.started_at > sealed.sealed_at
    GROUP BY sealed.prediction_id
)
SELECT
    sealed.system, sealed.study, sealed.backend, sealed.host_id, sealed.scenario_id, sealed.label,
    sealed.metric, sealed.unit, sealed.value AS predicted, sealed.low, sealed.high, later.measured,
    later.runs, 100 * (sealed.value - measured) / nullif(measured, 0) AS error_percent,
    abs(error_percent) AS ape_percent,
    measured BETWEEN sealed.low AND sealed.high AS inside_interval,
    report.split_of(
        fitted.subject_ids, fitted.dnns, fitted.families, fitted.node_types, fitted.world_sizes,
        sealed.scenario_id, subject.dnn, subject.family, subject.node_type, subject.world_size
    ) AS split,
    noise.noise_floor_percent, noise.noise_runs, sealed.prediction_id, sealed.sealed_at,
    later.first_measured_at
FROM pred.sealed AS sealed
JOIN later USING (prediction_id)
LEFT JOIN report.noise AS noise USING (scenario_id, backend, host_id, metric)
LEFT JOIN report.subject AS subject
    ON subject.subject_kind = 'scenario' AND subject.subject_id = sealed.scenario_id
LEFT JOIN (SELECT * EXCLUDE (backend) FROM report.fitted) AS fitted USING (fit_id);
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
COMMENT ON COLUMN report.sealed_accuracy.split IS 'How far the scenario is from what the fit saw; NULL: the fit is not in this warehouse';
COMMENT ON COLUMN report.sealed_accuracy.noise_floor_percent IS 'How far repeated measurements of it are apart, percent, as in report.noise; NULL: it was measured once';
COMMENT ON COLUMN report.sealed_accuracy.noise_runs IS 'Number of runs behind the noise floor';
COMMENT ON COLUMN report.sealed_accuracy.prediction_id IS 'The forecast, in pred.sealed';
COMMENT ON COLUMN report.sealed_accuracy.sealed_at IS 'When the file was written, UTC';
COMMENT ON COLUMN report.sealed_accuracy.first_measured_at IS 'When the first of these runs began, UTC';
