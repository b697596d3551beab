-- What was measured, how wrong predictions of it were, and how wrong they could not help being.
CREATE SCHEMA report;
