-- Views are no part of migrations: the files of warehouse/views say what they are.
CREATE TABLE meta.views (sha256 VARCHAR NOT NULL);
COMMENT ON TABLE meta.views IS 'Edition of the views in this file; one row';
COMMENT ON COLUMN meta.views.sha256 IS 'SHA-256 of the files that made them, hex';
