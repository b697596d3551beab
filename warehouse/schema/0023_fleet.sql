-- The fleet: whether node types still are what their profiles say, and what rests on profiles of those that are not.
CREATE TABLE raw.judgement (
    run_id VARCHAR NOT NULL,
    node_type VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    value DOUBLE NOT NULL,
    expected DOUBLE,
    change_percent DOUBLE,
    robust_z DOUBLE,
    earlier_n INTEGER NOT NULL,
    outcome VARCHAR NOT NULL,
    alarm BOOLEAN NOT NULL,
    confirmed BOOLEAN,
    watched VARCHAR NOT NULL,
    confirmed_by VARCHAR
);
COMMENT ON TABLE raw.judgement IS 'What was made of a probe that watches a node type for drift, one row per metric';
COMMENT ON COLUMN raw.judgement.run_id IS 'The run of the judge';
COMMENT ON COLUMN raw.judgement.node_type IS 'Node type that is watched';
COMMENT ON COLUMN raw.judgement.metric IS 'What was compared with its own history';
COMMENT ON COLUMN raw.judgement.unit IS 'Unit of value and expected';
COMMENT ON COLUMN raw.judgement.value IS 'Figure of the probe, relative to the speed of the host where that counts';
COMMENT ON COLUMN raw.judgement.expected IS 'Median of its comparable history; NULL: there is none';
COMMENT ON COLUMN raw.judgement.change_percent IS 'How much worse the figure is than expected: more seconds, or fewer bytes a second; negative: better; NULL: no history';
COMMENT ON COLUMN raw.judgement.robust_z IS 'The change in robust standard deviations of the history; NULL: too little history to judge by';
COMMENT ON COLUMN raw.judgement.earlier_n IS 'Number of earlier probes that it is compared with';
COMMENT ON COLUMN raw.judgement.outcome IS 'too_few earlier probes, same, slower, faster, or ended: as before the last change';
COMMENT ON COLUMN raw.judgement.alarm IS 'Whether the outcome is new, and too large a change for chance';
COMMENT ON COLUMN raw.judgement.confirmed IS 'Whether a second, fresh probe found the same; NULL: no alarm';
COMMENT ON COLUMN raw.judgement.watched IS 'The run of the probe that is judged';
COMMENT ON COLUMN raw.judgement.confirmed_by IS 'The run of the second probe; NULL: there was none';

CREATE VIEW visible.judgement AS SELECT * FROM raw.judgement SEMI JOIN visible.run USING (run_id);
COMMENT ON VIEW visible.judgement IS 'raw.judgement limited to ok profile runs';

CREATE VIEW report.alarm AS
SELECT
    judgement.node_type, run.backend, run.host_id, probed.started_at AS raised_at, judgement.metric,
    judgement.unit, judgement.value, judgement.expected, judgement.change_percent,
    judgement.robust_z, judgement.earlier_n, judgement.outcome, coalesce(judgement.confirmed, false) AS confirmed,
    judgement.watched, judgement.confirmed_by, judgement.run_id
FROM raw.judgement AS judgement
JOIN raw.run AS run USING (run_id)
JOIN raw.run AS probed ON probed.run_id = judgement.watched
WHERE judgement.alarm;
COMMENT ON VIEW report.alarm IS 'Node types that seemed to have changed, one row per judged probe and metric';
COMMENT ON COLUMN report.alarm.node_type IS 'Node type that seemed to have changed';
COMMENT ON COLUMN report.alarm.backend IS 'Where it was watched';
COMMENT ON COLUMN report.alarm.host_id IS 'Host that it was watched on';
COMMENT ON COLUMN report.alarm.raised_at IS 'When the probe began that raised it, UTC';
COMMENT ON COLUMN report.alarm.metric IS 'What changed';
COMMENT ON COLUMN report.alarm.unit IS 'Unit of value and expected';
COMMENT ON COLUMN report.alarm.value IS 'Figure of the probe, relative to the speed of the host where that counts';
COMMENT ON COLUMN report.alarm.expected IS 'Median of its comparable history';
COMMENT ON COLUMN report.alarm.change_percent IS 'How much worse the figure is than expected; negative: better';
COMMENT ON COLUMN report.alarm.robust_z IS 'The change in robust standard deviations of the history';
COMMENT ON COLUMN report.alarm.earlier_n IS 'Number of earlier probes that it is compared with';
COMMENT ON COLUMN report.alarm.outcome IS 'slower, faster, or ended: as before the last change';
COMMENT ON COLUMN report.alarm.confirmed IS 'Whether a second, fresh probe found the same';
COMMENT ON COLUMN report.alarm.watched IS 'The run of the probe that raised it';
COMMENT ON COLUMN report.alarm.confirmed_by IS 'The run of the second probe; NULL: there was none';
COMMENT ON COLUMN report.alarm.run_id IS 'The run of the judge';

-- The types of a run's nodes: as its scenario, its nodes or its config name them, or the study of the fleet that it
-- is of. Links measured before they named types: the nodes of the other runs of their round.
CREATE VIEW report.run_node_type AS
WITH named AS (
    SELECT run_id, unnest(canonical ->> '$.nodes[*].node_type') AS node_type FROM raw.scenario
    UNION
    SELECT run_id, node_type FROM raw.cluster_node
    UNION
    SELECT run_id, unnest(string_split(coalesce(config ->> '$.worker', config ->> '$.between'), ' + '))
    FROM raw.run
    UNION
    SELECT run_id, substr(study, length('fleet.') + 1) FROM raw.run WHERE starts_with(study, 'fleet.')
)
SELECT run_id, node_type FROM named
UNION
SELECT bare.run_id, other.node_type
FROM raw.run AS bare
JOIN (
    SELECT DISTINCT study, repeat, backend, host_id, node_type
    FROM named JOIN raw.run USING (run_id)
) AS other USING (study, repeat, backend, host_id)
WHERE bare.probe = 'links' AND bare.run_id NOT IN (SELECT run_id FROM named);
COMMENT ON VIEW report.run_node_type IS 'The types of the nodes that a run was about, one row each';
COMMENT ON COLUMN report.run_node_type.run_id IS 'The run';
COMMENT ON COLUMN report.run_node_type.node_type IS 'A type of its nodes';

CREATE VIEW report.stale_run AS
SELECT
    run.run_id, run.probe, run.study, run.backend, run.host_id, alarm.node_type, run.started_at,
    min(alarm.raised_at) AS stale_since,
    -- Of what changed at that time the largest change, the same for each run.
    arg_min(alarm.metric, (alarm.raised_at, -abs(alarm.change_percent), alarm.metric)) AS metric,
    arg_min(alarm.change_percent, (alarm.raised_at, -abs(alarm.change_percent), alarm.metric)) AS change_percent
FROM visible.run AS run
JOIN report.run_node_type USING (run_id)
JOIN report.alarm AS alarm
    ON alarm.node_type = run_node_type.node_type AND alarm.backend = run.backend
    AND alarm.host_id = run.host_id AND alarm.confirmed AND alarm.raised_at > run.started_at
WHERE run.probe NOT IN ('watch', 'drift')
GROUP BY ALL;
COMMENT ON VIEW report.stale_run IS 'Profiles from before a node type changed, one row per run and type';
COMMENT ON COLUMN report.stale_run.run_id IS 'The run';
COMMENT ON COLUMN report.stale_run.probe IS 'Its probe';
COMMENT ON COLUMN report.stale_run.study IS 'Its study';
COMMENT ON COLUMN report.stale_run.backend IS 'Where it was measured';
COMMENT ON COLUMN report.stale_run.host_id IS 'Host that measured';
COMMENT ON COLUMN report.stale_run.node_type IS 'The node type that changed after it';
COMMENT ON COLUMN report.stale_run.started_at IS 'When it was measured, UTC';
COMMENT ON COLUMN report.stale_run.stale_since IS 'When the first confirmed alarm after it was raised, UTC';
COMMENT ON COLUMN report.stale_run.metric IS 'What that alarm is about';
COMMENT ON COLUMN report.stale_run.change_percent IS 'How much worse that figure had become';
