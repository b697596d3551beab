-- Which tables and columns does the history have, and what do they mean?
-- Schemas: raw (as landed), visible (of raw, what fits may see), fit, pred (the ledger), report (views), catalog, meta.
SELECT
    schema_name || '.' || table_name AS of_table, column_name, lower(data_type) AS type, is_nullable, comment
FROM duckdb_columns()
WHERE NOT internal AND ($table::VARCHAR IS NULL OR schema_name || '.' || table_name = $table)
ORDER BY of_table, column_index;
