-- What only the warehouse knows is in journal/ beside it too, written there before it is committed (warehouse/journal.py).
CREATE TABLE meta.journal (
    entry BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL,
    size_bytes BIGINT NOT NULL
);
COMMENT ON TABLE meta.journal IS 'Newest entry of journal/ that is in this file; one row';
COMMENT ON COLUMN meta.journal.entry IS 'Number of that entry; 0: there is none yet';
COMMENT ON COLUMN meta.journal.sha256 IS 'SHA-256 of its line, hex';
COMMENT ON COLUMN meta.journal.size_bytes IS 'Size of all files of journal/ up to and with it, bytes';
INSERT INTO meta.journal VALUES (0, '', 0);
