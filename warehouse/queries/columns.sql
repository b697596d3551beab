-- Which columns does the history have, and what is in them?
SELECT schema_name, table_name, column_name, data_type, comment
FROM duckdb_columns()
WHERE database_name = current_database() AND NOT internal
ORDER BY schema_name, table_name, column_index;
