-- What probes measured, as landed. Written by the loader only; `run_id` ties the tables together.
CREATE SCHEMA raw;

CREATE TABLE raw.run (
    run_id VARCHAR NOT NULL,
    probe VARCHAR NOT NULL,
    purpose VARCHAR NOT NULL CHECK (purpose IN ('profile', 'measurement')),
    study VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    scenario_id VARCHAR,
    backend VARCHAR NOT NULL,
    status VARCHAR NOT NULL CHECK (status IN ('ok', 'failed')),
    error VARCHAR,
    started_at TIMESTAMPTZ NOT NULL,
    ended_at TIMESTAMPTZ NOT NULL,
    host_id VARCHAR NOT NULL,
    host JSON NOT NULL,
    software JSON NOT NULL,
    config JSON NOT NULL,
    cost_usd DOUBLE
);
COMMENT ON TABLE raw.run IS 'Executions of probes, one row per run';
COMMENT ON COLUMN raw.run.run_id IS 'Identity of the run';
COMMENT ON COLUMN raw.run.probe IS 'Name of the measuring program';
COMMENT ON COLUMN raw.run.purpose IS 'profile: input to fits; measurement: judges predictions, hidden from predictors';
COMMENT ON COLUMN raw.run.study IS 'Name of the study that asked for the run';
COMMENT ON COLUMN raw.run.repeat IS 'Round of the study, from 1; every round re-creates its clusters';
COMMENT ON COLUMN raw.run.scenario_id IS 'What ran; NULL for runs of the bare cluster, such as link probes';
COMMENT ON COLUMN raw.run.backend IS 'Where the rows come from: emulated, loopback, ssh, ec2 or imported';
COMMENT ON COLUMN raw.run.status IS 'ok or failed; a failed run has no samples';
COMMENT ON COLUMN raw.run.error IS 'Why the run failed';
COMMENT ON COLUMN raw.run.started_at IS 'When the run started, UTC';
COMMENT ON COLUMN raw.run.ended_at IS 'When the run ended, UTC';
COMMENT ON COLUMN raw.run.host_id IS 'Fingerprint of the host that measured';
COMMENT ON COLUMN raw.run.host IS 'What the fingerprint stands for: processor, kernel, memory';
COMMENT ON COLUMN raw.run.software IS 'Versions of the software that ran';
COMMENT ON COLUMN raw.run.config IS 'Settings of the probe';
COMMENT ON COLUMN raw.run.cost_usd IS 'What the run cost, US dollars; NULL where nothing was paid';

CREATE TABLE raw.scenario (
    run_id VARCHAR NOT NULL,
    scenario_id VARCHAR NOT NULL,
    canonical JSON NOT NULL
);
COMMENT ON TABLE raw.scenario IS 'What each run ran; report.scenario has it in columns';
COMMENT ON COLUMN raw.scenario.run_id IS 'The run';
COMMENT ON COLUMN raw.scenario.scenario_id IS 'Hash of the canonical JSON: equal scenarios, equal ids';
COMMENT ON COLUMN raw.scenario.canonical IS 'Workload, strategy, nodes and link speed with a schema version';

CREATE TABLE raw.sample (
    run_id VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    "window" SMALLINT,
    value DOUBLE CHECK (isfinite(value))
);
COMMENT ON TABLE raw.sample IS 'Measured figures, one row per run, metric and measuring window';
COMMENT ON COLUMN raw.sample.run_id IS 'The run';
COMMENT ON COLUMN raw.sample.metric IS 'What was measured, for example throughput_steps_per_s';
COMMENT ON COLUMN raw.sample.unit IS 'Unit of the value';
COMMENT ON COLUMN raw.sample.window IS 'Measuring window within the run; NULL: the whole run';
COMMENT ON COLUMN raw.sample.value IS 'The figure, in the unit of this row; NULL: missing';

CREATE TABLE raw.step (
    run_id VARCHAR NOT NULL,
    worker SMALLINT NOT NULL,
    step INTEGER NOT NULL,
    "window" SMALLINT,
    traced BOOLEAN NOT NULL,
    start_us BIGINT NOT NULL,
    end_us BIGINT NOT NULL
);
COMMENT ON TABLE raw.step IS 'Training steps, one row per worker and step';
COMMENT ON COLUMN raw.step.run_id IS 'The run';
COMMENT ON COLUMN raw.step.worker IS 'Index of the worker, from 0';
COMMENT ON COLUMN raw.step.step IS 'Index of the step on this worker, traced and untraced steps counted apart';
COMMENT ON COLUMN raw.step.window IS 'Measuring window the step ended in; NULL: outside all windows';
COMMENT ON COLUMN raw.step.traced IS 'Whether the framework traced the step';
COMMENT ON COLUMN raw.step.start_us IS 'Start of the step, microseconds since 1970-01-01 UTC';
COMMENT ON COLUMN raw.step.end_us IS 'End of the step, microseconds since 1970-01-01 UTC';
