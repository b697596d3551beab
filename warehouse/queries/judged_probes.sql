-- Which probes that watch node types have been judged, or confirmed another one's alarm (of $run_ids, NULL: all)?
SELECT DISTINCT run_id, node_type, is_second, judge
FROM (
    SELECT watched AS run_id, node_type, false AS is_second, run_id AS judge FROM raw.judgement
    UNION ALL
    SELECT confirmed_by, node_type, true, run_id FROM raw.judgement WHERE confirmed_by IS NOT NULL
)
WHERE $run_ids::VARCHAR[] IS NULL OR run_id IN (SELECT unnest($run_ids))
ORDER BY ALL;
