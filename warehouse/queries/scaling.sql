-- How does a metric grow with workers, measured and as each system last predicted it for a study?
-- $metric NULL is throughput; $study NULL is all studies. One row per scenario and system; worker_mix says
-- how many workers of each node type it has.
WITH measured AS (
    SELECT
        scenario_id, backend, host_id, metric, unit,
        avg(value) AS measured, min(value) AS measured_low, max(value) AS measured_high, count(*) AS runs
    FROM report.measured
    WHERE $study::VARCHAR IS NULL OR study = $study
    GROUP BY ALL
),
predicted AS (
    SELECT
        subject_id AS scenario_id, backend, host_id, metric, unit, system,
        value AS predicted, low AS predicted_low, high AS predicted_high
    FROM pred.ledger
    WHERE subject_kind = 'scenario' AND study IS NOT NULL AND ($study::VARCHAR IS NULL OR study = $study)
    QUALIFY row_number() OVER (
        PARTITION BY subject_id, backend, host_id, metric, system ORDER BY made_at DESC, prediction_id
    ) = 1
)
SELECT
    dnn, image_size, batch_size, link_mbps, cross_traffic, transfer_order, servers, placement,
    worker_node_type, workers, worker_mix, backend, host_id, metric, unit,
    system, predicted, predicted_low, predicted_high, measured, measured_low, measured_high, runs,
    scenario_id
FROM measured
FULL JOIN predicted USING (scenario_id, backend, host_id, metric, unit)
LEFT JOIN report.scenario USING (scenario_id)
WHERE metric = coalesce($metric, 'throughput_steps_per_s')
ORDER BY ALL;
