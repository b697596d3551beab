-- How wrong were forecasts that were published before anybody measured ($study NULL: of any study)?
SELECT
    study, backend, metric, system, split,
    count(ape_percent) AS n,
    avg(ape_percent) AS mape,
    median(ape_percent) AS median_ape,
    max(ape_percent) AS max_ape,
    100 * avg(inside_interval::INTEGER) AS inside_percent,
    avg(noise_floor_percent) AS noise_floor,
    count(noise_floor_percent) AS noise_n,
    min(sealed_at) AS sealed_at,
    min(first_measured_at) AS first_measured_at
FROM report.sealed_accuracy
WHERE NOT host_busy AND ($study::VARCHAR IS NULL OR study = $study)
GROUP BY ALL
ORDER BY study, backend, metric, split, mape NULLS LAST, system;
