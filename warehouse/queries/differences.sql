-- What differs between two sides ($base, $other: JSON lists of run ids), and by more than its noise?
-- Without $other, the newest run of each configuration is the other side; without $base, all runs beside that side.
WITH given AS (
    SELECT
        from_json($base, '["VARCHAR"]') AS base,
        coalesce(
            from_json($other, '["VARCHAR"]'), (SELECT list(DISTINCT run_id) FROM report.latest)
        ) AS other
),
side AS (
    SELECT
        other,
        coalesce(base, (SELECT list(run_id) FROM raw.run WHERE NOT list_contains(other, run_id))) AS base
    FROM given
)
SELECT *
FROM report.differences(
    (SELECT base FROM side), (SELECT other FROM side),
    between_types := coalesce($between_types::BOOLEAN, false)
)
ORDER BY
    is_larger DESC NULLS LAST, times_noise DESC NULLS FIRST, abs(difference_percent) DESC NULLS LAST,
    label, metric, point, configuration_id;
