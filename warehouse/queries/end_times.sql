-- How wrong are predicted ends of downlink streams, network by network ($study, $backend; NULL: all)?
-- Table 1 of the ICPE'20 paper, as parts of 1. A link sends the streams of a step one after the other, at
-- the goodput of one flow: each ends when all that is sent from some earlier start on, up to it, has been.
WITH captured_run AS (
    SELECT run_id, scenario_id, study, repeat, backend, host_id FROM raw.run
    WHERE status = 'ok' AND run_id IN (SELECT run_id FROM raw.stream)
        AND ($study::VARCHAR IS NULL OR study = $study)
        AND ($backend::VARCHAR IS NULL OR backend = $backend)
),
speed AS (
    SELECT
        study, repeat, backend, host_id, (config ->> '$.link_mbps')::DOUBLE AS link_mbps,
        avg("bandwidth_Bps") AS "speed_Bps"
    FROM raw.link JOIN raw.run USING (run_id)
    WHERE status = 'ok' AND direction = 'downlink' AND flows = 1
    GROUP BY ALL
),
tensor AS (
    SELECT run_id, operation, dnn, 1e6 * size_bytes / "speed_Bps" AS service_us
    FROM raw.operation
    JOIN captured_run USING (run_id)
    JOIN report.scenario AS scenario USING (scenario_id)
    JOIN speed
        ON (captured_run.study, captured_run.repeat, captured_run.backend, captured_run.host_id)
            = (speed.study, speed.repeat, speed.backend, speed.host_id)
        AND scenario.link_mbps IS NOT DISTINCT FROM speed.link_mbps
    WHERE resource = 'downlink'
),
timed AS (  -- operations that transfer nothing, most of them, are left out before streams are joined
    SELECT * FROM raw.timing JOIN tensor USING (run_id, operation)
    WHERE run_id IN (SELECT run_id FROM captured_run)
),
stream AS (
    SELECT run_id, step, operation, server, stream, last_us FROM raw.stream
    WHERE direction = 'downlink' AND operation IS NOT NULL
        AND run_id IN (SELECT run_id FROM captured_run)
    QUALIFY row_number() OVER (PARTITION BY run_id, step, operation ORDER BY first_us) = 1
),
traced AS MATERIALIZED (  -- numbered, so that links are sorted by a number, not by names of runs
    SELECT row_number() OVER () AS traced_step, run_id, step, start_us, backend, host_id
    FROM raw.step JOIN captured_run USING (run_id) WHERE traced
),
served AS (
    SELECT
        traced_step, server, stream.stream, dnn, timed.start_us, service_us,
        last_us - traced.start_us AS last_us
    FROM timed JOIN stream USING (run_id, step, operation) JOIN traced USING (run_id, step)
),
sent AS (
    SELECT *, sum(service_us) OVER link AS sent_us FROM served
    WINDOW link AS (PARTITION BY traced_step, server ORDER BY start_us, stream)
),
ended AS (
    SELECT *, sent_us + max(start_us + service_us - sent_us) OVER link AS predicted_us FROM sent
    WINDOW link AS (PARTITION BY traced_step, server ORDER BY start_us, stream)
)
SELECT
    dnn, backend, host_id, avg(abs(predicted_us - last_us) / last_us) AS mean,
    median(abs(predicted_us - last_us) / last_us) AS median,
    quantile_cont(abs(predicted_us - last_us) / last_us, 0.95) AS p95,
    max(abs(predicted_us - last_us) / last_us) AS maximum,
    count(*) AS n, count(DISTINCT run_id) AS runs
FROM ended JOIN traced USING (traced_step)
GROUP BY dnn, backend, host_id
ORDER BY ALL;
