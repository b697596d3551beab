-- What watches of the fleet found, and which runs are stale since.

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
