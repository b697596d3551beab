-- Figures over time, what is newest of each, and what differs between two sides of the history.

CREATE VIEW report.history AS
WITH figure AS (
    SELECT
        run_id, metric, any_value(unit) AS unit, '' AS point,
        coalesce(avg(value) FILTER ("window" IS NOT NULL), avg(value)) AS value
    FROM raw.sample GROUP BY run_id, metric
    UNION ALL
    SELECT
        run_id, direction || '_bandwidth_Bps', 'B/s', format('{} flows', flows),
        sum("bandwidth_Bps") / count(DISTINCT trial)
    FROM raw.link GROUP BY run_id, direction, flows
    UNION ALL
    SELECT run_id, 'forward_s', 's', format('batch {}', batch_size), avg(forward_s)
    FROM raw.compute GROUP BY run_id, batch_size
    UNION ALL
    SELECT run_id, 'backward_s', 's', format('batch {}', batch_size), avg(backward_s)
    FROM raw.compute GROUP BY run_id, batch_size
    UNION ALL
    SELECT
        run_id, 'bus_bandwidth_Bps', 'B/s',
        format('{}, {} ranks, {} bytes, {} at once', library, world_size, size_bytes, concurrent),
        median("bus_bandwidth_Bps")
    FROM raw.allreduce GROUP BY run_id, library, world_size, size_bytes, concurrent
)
SELECT
    comparable_id,
    backend, host_id, probe, scenario_id, metric, unit, point, value, run_id, purpose, study, repeat,
    started_at, loaded.sequence
FROM figure
JOIN raw.run AS run USING (run_id)
JOIN report.configuration AS configuration USING (run_id)
LEFT JOIN meta.loaded AS loaded USING (run_id)
WHERE value IS NOT NULL;
COMMENT ON VIEW report.history IS 'Every figure of every ok run, one row per run, metric and point; order a comparable_id by started_at';
COMMENT ON COLUMN report.history.comparable_id IS 'Hash of backend, host, probe, scenario and what the probe was asked to do: equal ids, comparable figures';
COMMENT ON COLUMN report.history.backend IS 'Where it was measured';
COMMENT ON COLUMN report.history.host_id IS 'Host that measured';
COMMENT ON COLUMN report.history.probe IS 'Measuring program';
COMMENT ON COLUMN report.history.scenario_id IS 'What ran; NULL: the bare cluster';
COMMENT ON COLUMN report.history.metric IS 'What was measured';
COMMENT ON COLUMN report.history.unit IS 'Unit of the value';
COMMENT ON COLUMN report.history.point IS 'Where on a probe''s grid: flows of a link, batch, all-reduce; empty: the whole run';
COMMENT ON COLUMN report.history.value IS 'Mean over windows and trials (all-reduce: median), in the unit of this row; links: sum of their flows';
COMMENT ON COLUMN report.history.run_id IS 'The run';
COMMENT ON COLUMN report.history.purpose IS 'profile or measurement';
COMMENT ON COLUMN report.history.study IS 'Study that asked for the run';
COMMENT ON COLUMN report.history.repeat IS 'Round of the study';
COMMENT ON COLUMN report.history.started_at IS 'When the run started, UTC';
COMMENT ON COLUMN report.history.sequence IS 'When it was loaded first, in the order of meta.chain';

CREATE VIEW report.latest AS
SELECT * FROM report.history
QUALIFY row_number() OVER (
    PARTITION BY comparable_id, metric, point ORDER BY started_at DESC, sequence DESC
) = 1;
COMMENT ON VIEW report.latest IS 'Newest figure of each configuration, one row per comparable_id, metric and point';
COMMENT ON COLUMN report.latest.comparable_id IS 'Hash of what makes figures comparable, as in report.history';
COMMENT ON COLUMN report.latest.backend IS 'Where it was measured';
COMMENT ON COLUMN report.latest.host_id IS 'Host that measured';
COMMENT ON COLUMN report.latest.probe IS 'Measuring program';
COMMENT ON COLUMN report.latest.scenario_id IS 'What ran; NULL: the bare cluster';
COMMENT ON COLUMN report.latest.metric IS 'What was measured';
COMMENT ON COLUMN report.latest.unit IS 'Unit of the value';
COMMENT ON COLUMN report.latest.point IS 'Where on a probe''s grid; empty: the whole run';
COMMENT ON COLUMN report.latest.value IS 'The newest figure, in the unit of this row';
COMMENT ON COLUMN report.latest.run_id IS 'The run';
COMMENT ON COLUMN report.latest.purpose IS 'profile or measurement';
COMMENT ON COLUMN report.latest.study IS 'Study that asked for the run';
COMMENT ON COLUMN report.latest.repeat IS 'Round of the study';
COMMENT ON COLUMN report.latest.started_at IS 'When the run started, UTC';
COMMENT ON COLUMN report.latest.sequence IS 'When it was loaded first, in the order of meta.chain';

CREATE VIEW meta.landed AS
SELECT run_id, arg_max(landed_sha256, sequence) AS landed_sha256
FROM (
    SELECT run_id, landed_sha256, sequence FROM meta.loaded
    UNION ALL
    SELECT run_id, landed_sha256, sequence FROM meta.reloaded
)
GROUP BY run_id;
COMMENT ON VIEW meta.landed IS 'What raw.* was loaded from, one row per run';
COMMENT ON COLUMN meta.landed.run_id IS 'The run';
COMMENT ON COLUMN meta.landed.landed_sha256 IS 'SHA-256 of the checksums of the Parquet files it was loaded from, hex; NULL: not kept';

-- Repeats count within a side only: were the two sides each other's repeats, no difference could exceed the noise.
-- Two repeats may agree by luck: below five, the noise is no less than that of windows within the runs.
CREATE MACRO report.differences(base_ids, other_ids, between_types := false) AS TABLE
WITH placed AS (
    SELECT
        comparable_id, metric, point, unit, value, run_id, label, probe, node_type, study, repeat, started_at,
        CASE WHEN between_types THEN other_types_id ELSE comparable_id END AS configuration_id,
        CASE
            WHEN list_contains(base_ids, run_id) THEN 'base'
            WHEN list_contains(other_ids, run_id) THEN 'other'
            ELSE 'neither'
        END AS side
    FROM report.history
    JOIN report.configuration USING (run_id, comparable_id)
    -- They tell how quiet and how fast the host was.
    WHERE metric NOT IN ('idle_cpu_fraction', 'stolen_cpu_fraction', 'gauge_us', 'host_gflops')
),
sided AS (
    SELECT
        *,
        sum(value) OVER subject - sum(value) OVER round AS total,
        count(*) OVER subject - count(*) OVER round AS others
    FROM placed
    WHERE comparable_id IN (SELECT comparable_id FROM placed WHERE side <> 'neither')
    WINDOW
        subject AS (PARTITION BY comparable_id, metric, point, side),
        round AS (PARTITION BY comparable_id, metric, point, side, study, repeat)
),
within_runs AS (
    SELECT
        configuration_id, metric, point,
        sum(noise_floor_percent * noise_windows) / sum(noise_windows) AS noise_floor_percent,
        sum(noise_windows)::BIGINT AS n
    FROM sided JOIN report.noise_within_run USING (run_id, metric, point)
    WHERE side <> 'neither' AND noise_floor_percent IS NOT NULL
    GROUP BY ALL
),
figure AS (
    SELECT
        configuration_id, metric, point,
        any_value(unit) AS unit, any_value(probe) AS probe,
        arg_min(label, side) AS label, arg_min(node_type, side) AS node_type,
        avg(value) FILTER (side = 'base') AS base,
        avg(value) FILTER (side = 'other') AS other,
        count(*) FILTER (side = 'base') AS base_runs,
        count(*) FILTER (side = 'other') AS other_runs,
        arg_max(run_id, started_at) FILTER (side = 'base') AS base_run_id,
        arg_max(run_id, started_at) FILTER (side = 'other') AS other_run_id,
        100 * avg(abs((total / others - value) / nullif(value, 0))) FILTER (others > 0) AS between_runs,
        count(*) FILTER (others > 0) AS n
    FROM sided GROUP BY configuration_id, metric, point
),
compared AS (
    SELECT
        configuration_id, probe, label, node_type, figure.metric, figure.point, unit,
        base, other, base_runs, other_runs, base_run_id, other_run_id,
        100 * (other - base) / nullif(abs(base), 0) AS difference_percent,
        between_runs IS NOT NULL AND (figure.n >= 5 OR between_runs >= coalesce(noise_floor_percent, 0)) AS of_repeats,
        CASE WHEN of_repeats THEN between_runs ELSE noise_floor_percent END AS noise_percent,
        CASE WHEN of_repeats THEN figure.n ELSE coalesce(within_runs.n, 0) END AS noise_n
    FROM figure LEFT JOIN within_runs USING (configuration_id, metric, point)
    WHERE base_runs + other_runs > 0
)
SELECT
    * EXCLUDE (of_repeats),
    CASE WHEN of_repeats THEN 'repeats' WHEN noise_percent IS NOT NULL THEN 'windows' END AS noise_of,
    abs(difference_percent) / nullif(noise_percent, 0) AS times_noise,
    abs(difference_percent) > noise_percent AS is_larger
FROM compared;
