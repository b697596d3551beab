-- What differs between two sides ($base, $other: JSON lists of run ids), and by more than its noise?
SELECT *
FROM report.differences(
    from_json($base, '["VARCHAR"]'), from_json($other, '["VARCHAR"]'),
    between_types := coalesce($between_types::BOOLEAN, false)
)
ORDER BY
    is_larger DESC NULLS LAST, times_noise DESC NULLS FIRST, abs(difference_percent) DESC NULLS LAST,
    label, metric, point, configuration_id;
