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
