-- Fits are found by a digest of the code of their system (forecasting/code.py): an unrelated commit fits nothing anew.
COMMENT ON COLUMN meta.remade.code_version IS 'Version of Stepcast that made it again; of a fit also code:…, the digest of the code of its system that made it';
