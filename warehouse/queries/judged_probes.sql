-- Which probes that watch node types have been judged, and did they raise an alarm that was not confirmed?
SELECT run_id, bool_or(alarm) AND NOT bool_or(coalesce(confirmed, false)) AS is_odd
FROM (
    SELECT watched AS run_id, alarm, confirmed FROM raw.judgement
    UNION ALL
    SELECT confirmed_by, alarm, confirmed FROM raw.judgement WHERE confirmed_by IS NOT NULL
)
GROUP BY run_id
ORDER BY run_id;
