-- Which probes that watch node types have been judged, and was it a change, its end, or an alarm that was not confirmed?
-- metrics: what has changed. odd: it raised an alarm, or was the second probe of one, that was not confirmed.
SELECT
    run_id, list(DISTINCT metric ORDER BY metric) FILTER (is_first AND confirmed) AS metrics,
    coalesce(bool_or(outcome = 'ended') FILTER (is_first AND confirmed), false) AS ended,
    bool_or(alarm) AND NOT bool_or(confirmed) AS odd
FROM (
    SELECT watched AS run_id, true AS is_first, metric, outcome, alarm, coalesce(confirmed, false) AS confirmed
    FROM raw.judgement
    UNION ALL
    SELECT confirmed_by, false, metric, outcome, alarm, coalesce(confirmed, false)
    FROM raw.judgement WHERE confirmed_by IS NOT NULL
)
GROUP BY run_id
ORDER BY run_id;
