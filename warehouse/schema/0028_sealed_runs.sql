-- Sealed forecasts name the runs that they rest on: how far their subjects are from these does not depend on whether
-- later code makes the same fit again.
ALTER TABLE pred.sealed ADD COLUMN run_ids VARCHAR[];
COMMENT ON COLUMN pred.sealed.run_ids IS 'Profile runs whose rows its fit saw; NULL: a file of before these were told';
