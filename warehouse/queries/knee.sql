-- How many workers are enough: which is the smallest W near peak throughput, predicted and measured?
-- Near is within $within (a part of the peak, NULL: 0.05). One row per job and system ($study NULL: all
-- studies; $dnn NULL: each), over the W that were predicted and measured after that. lost_percent is what
-- the predicted knee costs: how far the throughput measured there is below the measured peak. Workers of
-- several node types are a job of their own, whatever their numbers.
WITH job AS (
    SELECT DISTINCT
        scenario_id, regexp_replace(canonical, '"(count|workers)":[0-9]+', '', 'g') AS job
    FROM raw.scenario
),
point AS (
    SELECT
        system, backend, host_id, job, scenario_id, workers,
        avg(predicted) AS predicted, avg(measured) AS measured,
        max(avg(predicted)) OVER curve AS predicted_peak, max(avg(measured)) OVER curve AS measured_peak
    FROM report.accuracy JOIN report.scenario USING (scenario_id) JOIN job USING (scenario_id)
    WHERE metric = 'throughput_steps_per_s' AND ($study::VARCHAR IS NULL OR study = $study)
    GROUP BY system, backend, host_id, job, scenario_id, workers
    WINDOW curve AS (PARTITION BY system, backend, host_id, job)
),
knee AS (
    SELECT
        system, backend, host_id, job, list(workers ORDER BY workers) AS asked,
        min(workers) FILTER (predicted >= (1 - coalesce($within, 0.05)) * predicted_peak) AS predicted_knee,
        min(workers) FILTER (measured >= (1 - coalesce($within, 0.05)) * measured_peak) AS measured_knee,
        any_value(predicted_peak) AS predicted_peak, any_value(measured_peak) AS measured_peak
    FROM point GROUP BY system, backend, host_id, job
)
SELECT
    dnn, image_size, batch_size, link_mbps, cross_traffic, transfer_order, servers, placement,
    worker_node_type, backend, host_id, system, asked,
    predicted_knee, measured_knee, predicted_knee - measured_knee AS knee_error,
    knee.predicted_peak, knee.measured_peak,
    100 * (1 - measured / knee.measured_peak) AS lost_percent
FROM knee
JOIN point USING (system, backend, host_id, job)
JOIN report.scenario USING (scenario_id)
WHERE point.workers = predicted_knee AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
ORDER BY
    dnn, image_size, batch_size, link_mbps, cross_traffic, transfer_order, servers, placement,
    worker_node_type, backend, host_id, system, job;
