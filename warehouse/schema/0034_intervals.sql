-- Nothing writes this table any more: `stepcast predict --chrome-trace` writes a file.
COMMENT ON TABLE pred.synthetic_interval IS 'Simulated steps, one row per computation or chunk of a transfer that ran without a break; saved by stepcast timeline of earlier editions';
