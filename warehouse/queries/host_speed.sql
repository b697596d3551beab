-- Was the host as fast while something was measured as while it was profiled, and do errors follow ($system, $study)?
-- One row per judged prediction whose runs have a gauge: the mean processor time, in microseconds, of a fixed piece of
-- work that runs beside every probe. slower_percent: how much longer it took in the runs that judge the prediction than
-- in those that its fit saw (the mean of each). A host that is a guest slows down without any time stolen from it.
-- at_equal_speed_percent: the error in time if all that was measured had been as fast as what was profiled.
WITH gauged AS (
    SELECT run_id, (config ->> '$.gauge_us')::DOUBLE AS gauge_us FROM raw.run WHERE status = 'ok'
),
profiled AS (
    SELECT fit_id, avg(gauge_us) AS profiled_us
    FROM (SELECT fit_id, unnest(run_ids) AS run_id FROM fit.fit) JOIN gauged USING (run_id)
    GROUP BY fit_id
),
measured AS (
    SELECT scenario_id, backend, host_id, metric, study, repeat, avg(gauge_us) AS measured_us
    FROM report.measured JOIN gauged USING (run_id)
    GROUP BY ALL
)
SELECT
    study, repeat, system, label, error_percent, time_error_percent, profiled_us, measured_us,
    100 * (measured_us / profiled_us - 1) AS slower_percent,
    100 * ((1 + time_error_percent / 100) * measured_us / profiled_us - 1) AS at_equal_speed_percent,
    host_busy, backend, host_id, metric, scenario_id
FROM report.accuracy
JOIN profiled USING (fit_id)
JOIN measured USING (scenario_id, backend, host_id, metric, study, repeat)
WHERE profiled_us IS NOT NULL AND measured_us IS NOT NULL
    AND ($system::VARCHAR IS NULL OR system = $system) AND ($study::VARCHAR IS NULL OR study = $study)
ORDER BY study, repeat, system, abs(slower_percent) DESC, label;
