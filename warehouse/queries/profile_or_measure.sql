-- What does it take to know how a network scales: profiling one worker and predicting, or measuring each W?
-- Fig. 22 of the ICPE'20 paper ($study, $dnn; NULL: all). Seconds of runs, and US dollars at the prices of $market
-- (NULL: on_demand; NULL where a node type has none). Predicting takes the median time between two forecasts of
-- async_sgd in a round, times the forecasts; the host that predicts costs nothing here.
WITH spent AS (
    SELECT
        run.study, run.repeat, scenario.dnn, scenario.image_size, scenario.batch_size,
        scenario.worker_node_type, scenario.servers, run.backend, run.host_id, run.purpose, run.scenario_id,
        epoch(run.ended_at - run.started_at) AS seconds,
        epoch(run.ended_at - run.started_at) / 3600 * cost.usd_per_hour AS usd
    FROM raw.run AS run
    JOIN report.scenario AS scenario USING (scenario_id)
    JOIN report.hourly_cost AS cost USING (scenario_id)
    WHERE run.status = 'ok' AND cost.market = coalesce($market, 'on_demand')
        AND run.probe IN ('tf_trace', 'tf_throughput')
        AND ($study::VARCHAR IS NULL OR run.study = $study)
        AND ($dnn::VARCHAR IS NULL OR scenario.dnn = $dnn)
),
forecast AS (
    SELECT
        study, repeat, backend, host_id, subject_id AS scenario_id,
        epoch(made_at - lag(made_at) OVER (
            PARTITION BY study, repeat, backend, host_id ORDER BY made_at, subject_id
        )) AS gap_s
    FROM pred.ledger
    WHERE system = 'async_sgd'
),
predicting AS (
    SELECT study, repeat, backend, host_id, median(gap_s) AS seconds
    FROM forecast GROUP BY study, repeat, backend, host_id
)
SELECT
    study, repeat, dnn, image_size, batch_size, worker_node_type, servers, backend, host_id,
    count(DISTINCT scenario_id) FILTER (purpose = 'measurement') AS scenarios,
    sum(spent.seconds) FILTER (purpose = 'measurement') AS measuring_seconds,
    sum(spent.seconds) FILTER (purpose = 'profile') AS profiling_seconds,
    scenarios * any_value(predicting.seconds) AS predicting_seconds,
    sum(usd) FILTER (purpose = 'measurement') AS measuring_usd,
    sum(usd) FILTER (purpose = 'profile') AS profiling_usd
FROM spent
LEFT JOIN predicting USING (study, repeat, backend, host_id)
GROUP BY study, repeat, dnn, image_size, batch_size, worker_node_type, servers, backend, host_id
ORDER BY ALL;
