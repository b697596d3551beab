-- What does a million examples cost with each number of workers, as predicted and as measured?
-- One row per system and scenario that it predicted before it was measured ($system, $study, $dnn; NULL:
-- each), at the prices of $market (NULL: on_demand). Costs are NULL where a node type has no price
-- (unpriced). predicted_rank and measured_rank order the W of a job by cost, the cheapest first.
WITH job AS (
    SELECT DISTINCT
        scenario_id, regexp_replace(canonical, '"(count|workers)":[0-9]+', '', 'g') AS job
    FROM raw.scenario
),
speed AS (
    SELECT
        system, backend, host_id, scenario_id, avg(predicted) AS predicted, avg(measured) AS measured
    FROM report.accuracy
    WHERE metric = 'throughput_steps_per_s'
        AND ($system::VARCHAR IS NULL OR system = $system)
        AND ($study::VARCHAR IS NULL OR study = $study)
    GROUP BY system, backend, host_id, scenario_id
),
cost AS (
    SELECT
        *,
        1e6 / (nullif(predicted, 0) * batch_size) / 3600 * usd_per_hour AS predicted_usd,
        1e6 / (nullif(measured, 0) * batch_size) / 3600 * usd_per_hour AS measured_usd
    FROM speed
    JOIN report.scenario USING (scenario_id)
    JOIN job USING (scenario_id)
    JOIN report.hourly_cost USING (scenario_id)
    WHERE market = coalesce($market, 'on_demand') AND ($dnn::VARCHAR IS NULL OR dnn = $dnn)
)
SELECT
    dnn, image_size, batch_size, link_mbps, cross_traffic, transfer_order, servers, placement,
    worker_node_type, workers, worker_mix, backend, host_id, system,
    usd_per_hour, predicted_usd, measured_usd,
    100 * (predicted_usd - measured_usd) / measured_usd AS error_percent,
    CASE WHEN predicted_usd IS NOT NULL THEN rank() OVER (curve ORDER BY predicted_usd) END AS predicted_rank,
    CASE WHEN measured_usd IS NOT NULL THEN rank() OVER (curve ORDER BY measured_usd) END AS measured_rank,
    unpriced, price_source, scenario_id
FROM cost
WINDOW curve AS (PARTITION BY system, backend, host_id, job)
ORDER BY
    dnn, image_size, batch_size, link_mbps, cross_traffic, transfer_order, servers, placement,
    worker_node_type, backend, host_id, system, job, workers;
