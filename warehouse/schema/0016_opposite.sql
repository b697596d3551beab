-- What goes the other way through a server's link delays acknowledgements, and with them who sends.
ALTER TABLE raw.contention ADD COLUMN opposite SMALLINT;
COMMENT ON COLUMN raw.contention.opposite IS 'Number of transfers in the other direction meanwhile; NULL: not counted';
