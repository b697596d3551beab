-- What has moved away from its own history, farthest first, on a backend or on all ($backend NULL)?
SELECT
    backend, host_id, probe, label, metric, point, value, unit, median, mad, earlier_n, robust_z,
    started_at, run_id
FROM report.drift
WHERE ($backend::VARCHAR IS NULL OR backend = $backend)
    AND ($metric::VARCHAR IS NULL OR metric = $metric)
ORDER BY abs(robust_z) DESC NULLS LAST, earlier_n DESC, ALL;
