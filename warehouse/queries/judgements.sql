-- What did each watch find since $since (NULL: ever): by how much was each metric worse than expected?
-- Of one node type ($node_type), of several with commas between, or of each (NULL).
SELECT
    judgement.node_type, probed.started_at AS watched_at, metric, change_percent, robust_z, earlier_n, outcome, alarm,
    coalesce(confirmed, false) AS confirmed, value, expected, unit, watched, confirmed_by, judge.backend, judge.host_id
FROM raw.judgement AS judgement
JOIN raw.run AS judge USING (run_id)
JOIN raw.run AS probed ON probed.run_id = judgement.watched
WHERE ($node_type::VARCHAR IS NULL OR judgement.node_type IN (SELECT unnest(string_split($node_type, ','))))
    AND ($since::TIMESTAMPTZ IS NULL OR probed.started_at >= $since)
ORDER BY judgement.node_type, watched_at, metric;
