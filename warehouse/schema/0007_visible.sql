-- What predictors may see: raw rows of ok profile runs. Measurements judge predictions and stay hidden.
-- Columns are those of the raw table of the same name, and so are their comments.
CREATE SCHEMA visible;
