-- What watches of the fleet found, and which runs are stale since.

CREATE VIEW report.alarm AS
WITH raised AS MATERIALIZED ( -- few of many: of other runs nothing is read
    FROM raw.judgement WHERE alarm
)
SELECT
    raised.node_type, judge.backend, judge.host_id, probed.started_at AS raised_at, raised.metric,
    raised.unit, raised.value, raised.expected, raised.change_percent, raised.robust_z,
    raised.earlier_n, raised.outcome, coalesce(raised.confirmed, false) AS confirmed,
    raised.watched, raised.confirmed_by, raised.run_id
FROM raised
JOIN (FROM raw.run WHERE run_id IN (SELECT run_id FROM raised)) AS judge USING (run_id)
JOIN (FROM raw.run WHERE run_id IN (SELECT watched FROM raised)) AS probed ON probed.run_id = raised.watched;
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
-- is of. Links measured before they named types: the nodes of the other runs of their round. Probes that watch the
-- fleet are left out: they are no profiles, and most of what a fleet has after a year.
CREATE VIEW report.stale_run AS
WITH changed AS MATERIALIZED (
    FROM report.alarm WHERE confirmed
),
profile AS MATERIALIZED (
    SELECT run_id, probe, study, repeat, backend, host_id, started_at
    FROM visible.run
    WHERE probe NOT IN ('watch', 'drift') AND started_at < (SELECT max(raised_at) FROM changed)
),
named AS MATERIALIZED (
    SELECT run_id, unnest(canonical ->> '$.nodes[*].node_type') AS node_type FROM raw.scenario
    UNION ALL
    SELECT run_id, node_type FROM raw.cluster_node
    UNION ALL
    SELECT run_id, unnest(string_split(coalesce(types[1], types[2]), ' + '))
    FROM (
        SELECT run_id, json_extract_string(config, ['$.worker', '$.between']) AS types
        FROM raw.run
        WHERE NOT starts_with(study, 'watch.') AND started_at < (SELECT max(raised_at) FROM changed)
    )
),
run_node_type AS (
    SELECT run_id, node_type FROM named
    UNION ALL
    SELECT run_id, substr(study, length('fleet.') + 1) FROM profile WHERE starts_with(study, 'fleet.')
    UNION ALL
    SELECT bare.run_id, named.node_type
    FROM (FROM profile WHERE probe = 'links' AND NOT starts_with(study, 'fleet.')) AS bare
    ANTI JOIN named AS own USING (run_id)
    JOIN raw.run AS other USING (study, repeat, backend, host_id)
    JOIN named ON named.run_id = other.run_id
)
SELECT
    profile.run_id, profile.probe, profile.study, profile.backend, profile.host_id, changed.node_type,
    profile.started_at, min(changed.raised_at) AS stale_since,
    -- Of what changed at that time the largest change, the same for each run.
    arg_min(changed.metric, (changed.raised_at, -abs(changed.change_percent), changed.metric)) AS metric,
    arg_min(changed.change_percent, (changed.raised_at, -abs(changed.change_percent), changed.metric)) AS change_percent
FROM (SELECT DISTINCT * FROM run_node_type WHERE node_type IN (SELECT node_type FROM changed)) AS about
JOIN profile USING (run_id)
JOIN changed
    ON changed.node_type = about.node_type AND changed.backend = profile.backend
    AND changed.host_id = profile.host_id AND changed.raised_at > profile.started_at
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
