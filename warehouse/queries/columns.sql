-- Which columns does the history have, or one table such as raw.sample ($table), and what is in them?
SELECT schema_name, table_name, column_name, data_type, comment
FROM duckdb_columns()
WHERE database_name = current_database() AND NOT internal
    AND ($table::VARCHAR IS NULL OR schema_name || '.' || table_name = $table)
ORDER BY schema_name, table_name, column_index;
