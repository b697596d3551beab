-- What did each watch find of each node type ($node_type, NULL: each): by how much was each metric worse than expected?
SELECT
    judgement.node_type, probed.started_at AS watched_at, metric, change_percent, robust_z, earlier_n, outcome, alarm,
    coalesce(confirmed, false) AS confirmed, value, expected, unit, watched, confirmed_by, judge.backend, judge.host_id
FROM raw.judgement AS judgement
JOIN raw.run AS judge USING (run_id)
JOIN raw.run AS probed ON probed.run_id = judgement.watched
WHERE $node_type::VARCHAR IS NULL OR judgement.node_type = $node_type
ORDER BY judgement.node_type, watched_at, metric;
