-- When did each visit profile node types ($node_type, NULL: each; several with commas between), since $since (NULL: ever)?
SELECT
    substr(study, length('fleet.') + 1) AS node_type, backend, host_id, repeat, min(started_at) AS profiled_at,
    count(*) AS runs
FROM raw.run
WHERE starts_with(study, 'fleet.') AND status = 'ok' AND ($since::TIMESTAMPTZ IS NULL OR started_at >= $since)
    AND ($node_type::VARCHAR IS NULL OR substr(study, length('fleet.') + 1) IN (SELECT unnest(string_split($node_type, ','))))
GROUP BY ALL
ORDER BY node_type, profiled_at;
