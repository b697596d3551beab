-- How wrong are predicted ends of downlink streams, network by network ($study, $backend; NULL: all)?
-- Table 1 of the ICPE'20 paper, as parts of 1. A link sends the streams of a step one after the other, at
-- the goodput of one flow: each ends when all that is sent from some earlier start on, up to it, has been.
WITH timed AS (
    FROM report.timing SEMI JOIN raw.stream USING (run_id)  -- few large runs have streams
),
speed AS (
    SELECT
        study, repeat, backend, host_id, (config ->> '$.link_mbps')::DOUBLE AS link_mbps,
        avg("bandwidth_Bps") AS "speed_Bps"
    FROM raw.link JOIN raw.run USING (run_id)
    WHERE status = 'ok' AND direction = 'downlink' AND flows = 1
    GROUP BY ALL
),
served AS (
    SELECT
        run_id, scenario.dnn, run.backend, run.host_id, stream.step, stream.server, stream.stream,
        timed.start_us, stream.last_us - step.start_us AS last_us,
        1e6 * operation.size_bytes / "speed_Bps" AS service_us
    FROM raw.stream AS stream
    JOIN raw.run AS run USING (run_id)
    JOIN report.scenario AS scenario USING (scenario_id)
    JOIN raw.operation AS operation USING (run_id, operation)
    JOIN timed USING (run_id, step, operation)
    JOIN raw.step AS step USING (run_id, step)
    JOIN speed
        ON (run.study, run.repeat, run.backend, run.host_id)
            = (speed.study, speed.repeat, speed.backend, speed.host_id)
        AND scenario.link_mbps IS NOT DISTINCT FROM speed.link_mbps
    WHERE stream.direction = 'downlink' AND step.traced AND run.status = 'ok'
        AND ($study::VARCHAR IS NULL OR run.study = $study)
        AND ($backend::VARCHAR IS NULL OR run.backend = $backend)
    QUALIFY row_number() OVER (
        PARTITION BY run_id, stream.step, operation.operation ORDER BY stream.first_us
    ) = 1
),
sent AS (
    SELECT *, sum(service_us) OVER link AS sent_us FROM served
    WINDOW link AS (PARTITION BY run_id, step, server ORDER BY start_us, stream)
),
ended AS (
    SELECT *, sent_us + max(start_us + service_us - sent_us) OVER link AS predicted_us FROM sent
    WINDOW link AS (PARTITION BY run_id, step, server ORDER BY start_us, stream)
)
SELECT
    dnn, backend, host_id, avg(abs(predicted_us - last_us) / last_us) AS mean,
    median(abs(predicted_us - last_us) / last_us) AS median,
    quantile_cont(abs(predicted_us - last_us) / last_us, 0.95) AS p95,
    max(abs(predicted_us - last_us) / last_us) AS maximum,
    count(*) AS n, count(DISTINCT run_id) AS runs
FROM ended
GROUP BY dnn, backend, host_id
ORDER BY ALL;
