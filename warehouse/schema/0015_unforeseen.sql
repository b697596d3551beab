-- A system may know only how little or much something takes, and says so rather than guess.
ALTER TABLE pred.ledger ALTER COLUMN value DROP NOT NULL;
COMMENT ON COLUMN pred.ledger.value IS 'The forecast, in the unit of this row; NULL: the system says no more than low and high';
