-- Nothing wrote simulated steps and decisions any more, and nothing read who may predict: a system says what it is.
DROP TABLE pred.synthetic_interval;
DROP TABLE pred.decision;
DROP TABLE pred.system;
