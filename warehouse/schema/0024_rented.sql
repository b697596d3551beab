-- What was rented: each entry of a home's book (`profilers.renting.book`), in the order in which they were written.
CREATE TABLE raw.rented (
    run_id VARCHAR NOT NULL,
    entry INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    written_at TIMESTAMPTZ NOT NULL,
    token VARCHAR,
    instance VARCHAR,
    account VARCHAR,
    region VARCHAR,
    zone VARCHAR,
    node_type VARCHAR,
    market VARCHAR,
    instances INTEGER,
    usd_per_hour DOUBLE CHECK (isfinite(usd_per_hour)),
    volume_usd_per_hour DOUBLE CHECK (isfinite(volume_usd_per_hour)),
    hours DOUBLE CHECK (isfinite(hours)),
    seconds DOUBLE CHECK (isfinite(seconds)),
    usd DOUBLE CHECK (isfinite(usd)),
    code VARCHAR,
    reason VARCHAR
);
COMMENT ON TABLE raw.rented IS 'What was asked for and rented, as a home''s book has it: one row per entry, and per instance of what a launch brought';
COMMENT ON COLUMN raw.rented.run_id IS 'The run that brought these entries of the book';
COMMENT ON COLUMN raw.rented.entry IS 'Place of the entry in the book, from 0';
COMMENT ON COLUMN raw.rented.kind IS 'intent: a launch is about to be asked for; launched: an instance of it; refused: it brought nothing more; ended: an instance ends';
COMMENT ON COLUMN raw.rented.written_at IS 'When it was written down, UTC';
COMMENT ON COLUMN raw.rented.token IS 'Client token of the launch; NULL: an instance that ended';
COMMENT ON COLUMN raw.rented.instance IS 'Name of the instance at its provider; NULL: a launch or a refusal';
COMMENT ON COLUMN raw.rented.account IS 'Whose cap the launch counts against: a command, or a run of Dagster; NULL: not a launch';
COMMENT ON COLUMN raw.rented.region IS 'Region that was asked; NULL: not a launch';
COMMENT ON COLUMN raw.rented.zone IS 'Zone that was asked; NULL: not a launch, or the provider chose';
COMMENT ON COLUMN raw.rented.node_type IS 'Kind of machine; NULL: not a launch';
COMMENT ON COLUMN raw.rented.market IS 'on_demand or spot; NULL: not a launch';
COMMENT ON COLUMN raw.rented.instances IS 'Number of instances, all or none; NULL: not a launch';
COMMENT ON COLUMN raw.rented.usd_per_hour IS 'Price of one, or the highest bid, US dollars per hour; NULL: not a launch';
COMMENT ON COLUMN raw.rented.volume_usd_per_hour IS 'Price of one''s volumes, US dollars per hour; NULL: not a launch';
COMMENT ON COLUMN raw.rented.hours IS 'After which each ends by itself; NULL: not a launch';
COMMENT ON COLUMN raw.rented.seconds IS 'Seconds that an instance lived and that are paid; NULL: it is not an end';
COMMENT ON COLUMN raw.rented.usd IS 'US dollars: of a launch, what it costs at most; of an end, what the instance cost; else NULL';
COMMENT ON COLUMN raw.rented.code IS 'Why a launch was refused, in the provider''s word; NULL: it is no refusal';
COMMENT ON COLUMN raw.rented.reason IS 'The same as a sentence; NULL: it is no refusal';
