-- Which measurements of others are here, from where, under which licence, and how many rows?
SELECT
    run.backend, source.source, source.licence, source.url, source.format, source.file_name,
    source.sha256, source.imported_at, run.status, run.error, run_id,
    count(external.run_id) AS external_rows,
    string_agg(DISTINCT external.metric, ', ' ORDER BY external.metric) AS metrics
FROM raw.source AS source
JOIN raw.run AS run USING (run_id)
LEFT JOIN raw.external AS external USING (run_id)
GROUP BY ALL
ORDER BY source.source, source.file_name, run_id;
