-- Which probes watched node types ($node_type, NULL: each; several with commas between): the newest $most (NULL: all), and those that found a change?
-- metrics: what changed, as a second probe confirmed. odd: an alarm of it, or that it was to confirm, was not confirmed.
WITH judgement AS (
    SELECT watched, confirmed_by, metric, outcome, alarm, coalesce(confirmed, false) AS confirmed
    FROM raw.judgement
    WHERE alarm AND ($node_type::VARCHAR IS NULL OR node_type IN (SELECT unnest(string_split($node_type, ','))))
),
alarmed AS (
    SELECT
        run_id, list(DISTINCT metric ORDER BY metric) FILTER (is_first AND confirmed) AS metrics,
        coalesce(bool_or(outcome = 'ended') FILTER (is_first AND confirmed), false) AS ended,
        NOT bool_or(confirmed) AS odd
    FROM (
        SELECT *, watched AS run_id, true AS is_first FROM judgement
        UNION ALL BY NAME
        SELECT *, confirmed_by AS run_id, false AS is_first FROM judgement WHERE confirmed_by IS NOT NULL
    )
    GROUP BY run_id
)
SELECT
    substr(study, length('watch.') + 1) AS node_type, backend, host_id, run_id, started_at,
    (config ->> '$.link_mbps')::DOUBLE AS link_mbps, coalesce(host ->> '$.boot_id', '') AS boot, metrics,
    coalesce(ended, false) AS ended, coalesce(odd, false) AS odd
FROM visible.run LEFT JOIN alarmed USING (run_id)
WHERE probe = 'watch' AND starts_with(study, 'watch.')
    AND ($node_type::VARCHAR IS NULL OR substr(study, length('watch.') + 1) IN (SELECT unnest(string_split($node_type, ','))))
QUALIFY $most::BIGINT IS NULL OR metrics IS NOT NULL
    OR row_number() OVER (PARTITION BY study, backend, host_id ORDER BY started_at DESC, run_id DESC) <= $most
ORDER BY started_at, run_id;
