-- Which columns does the history have, or one table such as raw.sample ($table), and what is in them?
-- Columns of visible.* are those of raw.*.
SELECT shown.schema_name, table_name, column_name, shown.data_type, coalesce(shown.comment, raw.comment) AS comment
FROM duckdb_columns() AS shown
LEFT JOIN (FROM duckdb_columns() WHERE schema_name = 'raw') AS raw USING (database_name, table_name, column_name)
WHERE database_name = current_database() AND NOT shown.internal
    AND ($table::VARCHAR IS NULL OR shown.schema_name || '.' || table_name = $table)
ORDER BY shown.schema_name, table_name, shown.column_index;
