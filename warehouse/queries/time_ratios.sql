-- How much longer did training take than each system had forecast, at which distance, how many hours after its profiles?
SELECT
    system, backend, metric, split, ratio, hours_apart, measured_at, study, repeat, scenario_id, prediction_id, run_id
FROM report.time_ratio
WHERE ($backend::VARCHAR IS NULL OR backend = $backend)
    AND ($system::VARCHAR IS NULL OR system = $system)
    AND ($known_by::TIMESTAMPTZ IS NULL OR measured_at <= $known_by::TIMESTAMPTZ)
ORDER BY system, metric, split, measured_at, scenario_id, prediction_id, run_id;
