-- What the network between nodes does: links, collectives, streams in packet captures.
CREATE TABLE raw.link (
    run_id VARCHAR NOT NULL,
    direction VARCHAR NOT NULL CHECK (direction IN ('downlink', 'uplink')),
    flows SMALLINT NOT NULL,
    flow SMALLINT NOT NULL,
    trial SMALLINT NOT NULL,
    seconds DOUBLE NOT NULL CHECK (isfinite(seconds)),
    bytes BIGINT NOT NULL,
    "bandwidth_Bps" DOUBLE NOT NULL CHECK (isfinite("bandwidth_Bps")),
    retransmits INTEGER
);
COMMENT ON TABLE raw.link IS 'What links carried, one row per trial and flow';
COMMENT ON COLUMN raw.link.run_id IS 'The run';
COMMENT ON COLUMN raw.link.direction IS 'downlink: server to worker; uplink: worker to server';
COMMENT ON COLUMN raw.link.flows IS 'Number of simultaneous flows in the trial';
COMMENT ON COLUMN raw.link.flow IS 'Index of this flow among them';
COMMENT ON COLUMN raw.link.trial IS 'Repetition of the same measurement';
COMMENT ON COLUMN raw.link.seconds IS 'How long the flow was measured, seconds';
COMMENT ON COLUMN raw.link.bytes IS 'Bytes it carried';
COMMENT ON COLUMN raw.link."bandwidth_Bps" IS 'What it carried, bytes per second';
COMMENT ON COLUMN raw.link.retransmits IS 'TCP segments sent again; NULL: not reported';

CREATE TABLE raw.contention (
    run_id VARCHAR NOT NULL,
    direction VARCHAR NOT NULL CHECK (direction IN ('downlink', 'uplink')),
    flows SMALLINT NOT NULL,
    place SMALLINT NOT NULL,
    seconds DOUBLE NOT NULL CHECK (isfinite(seconds)),
    bytes BIGINT NOT NULL,
    log_share_sd DOUBLE
);
COMMENT ON TABLE raw.contention IS 'What transfers that start and stop get of a server''s link while several use it';
COMMENT ON COLUMN raw.contention.run_id IS 'The run';
COMMENT ON COLUMN raw.contention.direction IS 'downlink: server to worker; uplink: worker to server';
COMMENT ON COLUMN raw.contention.flows IS 'Number of workers that were sending or receiving at the same time';
COMMENT ON COLUMN raw.contention.place IS 'Place among them by how long they had been at it; 0: longest';
COMMENT ON COLUMN raw.contention.seconds IS 'How long so many were, seconds';
COMMENT ON COLUMN raw.contention.bytes IS 'Bytes that the transfer in this place carried then';
COMMENT ON COLUMN raw.contention.log_share_sd IS 'Standard deviation, from one stretch of time to another, of the logarithm of its share; NULL: too few';

CREATE TABLE raw.allreduce (
    run_id VARCHAR NOT NULL,
    library VARCHAR NOT NULL,
    world_size SMALLINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    concurrent SMALLINT NOT NULL,
    trial SMALLINT NOT NULL,
    rank SMALLINT,
    seconds DOUBLE NOT NULL CHECK (isfinite(seconds)),
    raw_seconds DOUBLE NOT NULL CHECK (isfinite(raw_seconds)),
    "bus_bandwidth_Bps" DOUBLE NOT NULL CHECK (isfinite("bus_bandwidth_Bps")),
    in_place BOOLEAN,
    mtu_bytes INTEGER
);
COMMENT ON TABLE raw.allreduce IS 'All-reduce operations, one row per buffer size, trial and rank';
COMMENT ON COLUMN raw.allreduce.run_id IS 'The run';
COMMENT ON COLUMN raw.allreduce.library IS 'What reduces, for example gloo or nccl';
COMMENT ON COLUMN raw.allreduce.world_size IS 'Number of ranks that take part, n';
COMMENT ON COLUMN raw.allreduce.size_bytes IS 'Size of the buffer, s, bytes';
COMMENT ON COLUMN raw.allreduce.concurrent IS 'Number of all-reduces under way at once, this one among them';
COMMENT ON COLUMN raw.allreduce.trial IS 'Repetition of the same measurement';
COMMENT ON COLUMN raw.allreduce.rank IS 'Rank that timed it, from 0; NULL: a figure of all ranks';
COMMENT ON COLUMN raw.allreduce.seconds IS 'How long it took, t, seconds; waiting for other ranks to start is taken off where it is known';
COMMENT ON COLUMN raw.allreduce.raw_seconds IS 'How long it took as timed, seconds, waiting included';
COMMENT ON COLUMN raw.allreduce."bus_bandwidth_Bps" IS '2 s (n - 1) / (n t), bytes per second (Srift, section 4)';
COMMENT ON COLUMN raw.allreduce.in_place IS 'Whether the result replaced the input; NULL: not known';
COMMENT ON COLUMN raw.allreduce.mtu_bytes IS 'Largest packet of the links, bytes; NULL: not known';

CREATE TABLE raw.stream (
    run_id VARCHAR NOT NULL,
    step INTEGER,
    direction VARCHAR NOT NULL CHECK (direction IN ('downlink', 'uplink')),
    worker SMALLINT NOT NULL,
    server SMALLINT NOT NULL,
    stream INTEGER NOT NULL,
    operation INTEGER,
    size_bytes BIGINT NOT NULL,
    first_us BIGINT NOT NULL,
    last_us BIGINT NOT NULL,
    segments INTEGER NOT NULL
);
COMMENT ON TABLE raw.stream IS 'HTTP/2 streams found in packet captures, one row per stream and direction of its data';
COMMENT ON COLUMN raw.stream.run_id IS 'The run';
COMMENT ON COLUMN raw.stream.step IS 'Index of the training step; NULL: not known';
COMMENT ON COLUMN raw.stream.direction IS 'downlink: server to worker; uplink: worker to server';
COMMENT ON COLUMN raw.stream.worker IS 'Index of the worker, from 0; in captures of others of the client''s address';
COMMENT ON COLUMN raw.stream.server IS 'Index of the parameter server, from 0; in captures of others of the server''s address and port';
COMMENT ON COLUMN raw.stream.stream IS 'HTTP/2 identifier of the stream within its connection';
COMMENT ON COLUMN raw.stream.operation IS 'Index of the operation it transfers for; NULL: not known';
COMMENT ON COLUMN raw.stream.size_bytes IS 'Payload it carried, bytes';
COMMENT ON COLUMN raw.stream.first_us IS 'Its first payload, microseconds since 1970-01-01 UTC';
COMMENT ON COLUMN raw.stream.last_us IS 'Its last payload, microseconds since 1970-01-01 UTC';
COMMENT ON COLUMN raw.stream.segments IS 'Number of uninterrupted pieces it was sent in';

CREATE TABLE raw.http2_frame (
    run_id VARCHAR NOT NULL,
    worker SMALLINT NOT NULL,
    server SMALLINT NOT NULL,
    direction VARCHAR NOT NULL CHECK (direction IN ('downlink', 'uplink')),
    sender VARCHAR NOT NULL CHECK (sender IN ('worker', 'server')),
    type VARCHAR NOT NULL,
    stream INTEGER NOT NULL,
    time_us BIGINT NOT NULL,
    length_bytes INTEGER NOT NULL,
    value BIGINT
);
COMMENT ON TABLE raw.http2_frame IS 'HTTP/2 frames found in packet captures, one row per frame';
COMMENT ON COLUMN raw.http2_frame.run_id IS 'The run';
COMMENT ON COLUMN raw.http2_frame.worker IS 'Index of the worker, from 0';
COMMENT ON COLUMN raw.http2_frame.server IS 'Index of the parameter server, from 0';
COMMENT ON COLUMN raw.http2_frame.direction IS 'Where the tensors of its connection go (in captures of others: most of its data): downlink: server to worker; uplink: worker to server';
COMMENT ON COLUMN raw.http2_frame.sender IS 'Who sent the frame: worker or server';
COMMENT ON COLUMN raw.http2_frame.type IS 'Kind of frame, for example SETTINGS, WINDOW_UPDATE or DATA';
COMMENT ON COLUMN raw.http2_frame.stream IS 'HTTP/2 identifier of the stream; 0: the connection';
COMMENT ON COLUMN raw.http2_frame.time_us IS 'When it passed, microseconds since 1970-01-01 UTC';
COMMENT ON COLUMN raw.http2_frame.length_bytes IS 'Length of its payload, bytes';
COMMENT ON COLUMN raw.http2_frame.value IS 'Window increment or initial window, bytes; NULL: the frame has none';
