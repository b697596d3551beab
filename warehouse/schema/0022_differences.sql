-- What differs between two sides of the history, and is that more than equal runs differ anyway?
-- Every key that a probe found out itself makes the run that has it incomparable: `host_gflops` alone did so with
-- all runs of steady cores. Keys are left out by name, so that a new setting keeps figures apart by itself.
CREATE VIEW report.configuration AS
WITH asked AS (
    SELECT
        *,
        json_merge_patch(
            config,
            '{"stationary": null, "windows": null, "discarded_windows": null, "iterations": null,
            "half_width": null, "discarded_pieces": null, "stolen_cpu_fraction": null,
            "gauge_us": null, "host_gflops": null, "uncertainty": null, "window_steps": null,
            "attempts": null, "settings": null, "command": null, "code_version": null}'
        )::VARCHAR AS asked
    FROM raw.run WHERE status = 'ok'
),
-- A scenario whose workers could be of any type; what else it says of them is copied from their type.
untyped AS (
    SELECT
        scenario_id,
        json_merge_patch(
            any_value(canonical),
            json_object('nodes', list_transform(
                from_json(any_value(canonical) -> '$.nodes', '["JSON"]'),
                lambda node: CASE WHEN node ->> '$.role' = 'worker' THEN json_merge_patch(
                    node,
                    '{"node_type": null, "cpu_share": null, "threads": null, "inter_op_threads": null,
                    "isa": null, "memory_bytes": null, "core_gflops": null}'
                ) ELSE node END
            ))
        )::VARCHAR AS canonical
    FROM raw.scenario GROUP BY scenario_id
)
SELECT
    run_id,
    sha256(concat_ws(chr(10), backend, host_id, probe, coalesce(run.scenario_id, ''), asked))[:16]
        AS comparable_id,
    -- Machines of another type are other machines; emulated types are all of the host that emulates them.
    sha256(concat_ws(
        chr(10), backend, CASE WHEN backend NOT IN ('ssh', 'ec2') THEN host_id END, probe,
        coalesce(untyped.canonical, ''), json_merge_patch(asked, '{"worker": null, "between": null}')::VARCHAR
    ))[:16] AS other_types_id,
    coalesce(scenario.worker_node_type, replace(coalesce(config ->> '$.worker', config ->> '$.between'), ' + ', '+')) AS node_type,
    coalesce(
        scenario.label,
        concat_ws(
            ', ', probe, format('{} ranks', config ->> '$.world_size'),
            format('{:g} Mb/s', (config ->> '$.link_mbps')::DOUBLE),
            coalesce(config ->> '$.worker', config ->> '$.between')
        )
    ) AS label,
    config ->> '$.code_version' AS code_version
FROM asked AS run
LEFT JOIN untyped USING (scenario_id)
LEFT JOIN report.scenario AS scenario USING (scenario_id);
COMMENT ON VIEW report.configuration IS 'What each ok run was asked to measure, one row per run';
COMMENT ON COLUMN report.configuration.run_id IS 'The run';
COMMENT ON COLUMN report.configuration.comparable_id IS 'Hash of backend, host, probe, scenario and what the probe was asked to do: equal ids, comparable figures';
COMMENT ON COLUMN report.configuration.other_types_id IS 'The same but for the node type of the workers (on ssh and ec2 also the host): equal ids differ in nothing else';
COMMENT ON COLUMN report.configuration.node_type IS 'Node type of the workers, several joined by +; NULL: the run does not tell';
COMMENT ON COLUMN report.configuration.label IS 'Short name for tables: of the scenario, or of probe, nodes and links';
COMMENT ON COLUMN report.configuration.code_version IS 'Version of Stepcast that measured; NULL: the run is from before runs kept it';

CREATE OR REPLACE VIEW report.history AS
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

-- The noise floor of report.noise, one level down: each window is forecast by the mean of the run's others.
CREATE VIEW report.noise_within_run AS
WITH trial AS (
    SELECT run_id, metric, '' AS point, value FROM raw.sample WHERE "window" IS NOT NULL AND value IS NOT NULL
    UNION ALL
    SELECT
        run_id, direction || '_bandwidth_Bps', format('{} flows', flows), sum("bandwidth_Bps")
    FROM raw.link GROUP BY run_id, direction, flows, trial
    UNION ALL
    SELECT run_id, 'forward_s', format('batch {}', batch_size), avg(forward_s)
    FROM raw.compute GROUP BY run_id, batch_size, trial
    UNION ALL
    SELECT run_id, 'backward_s', format('batch {}', batch_size), avg(backward_s)
    FROM raw.compute GROUP BY run_id, batch_size, trial
    UNION ALL
    SELECT
        run_id, 'bus_bandwidth_Bps',
        format('{}, {} ranks, {} bytes, {} at once', library, world_size, size_bytes, concurrent),
        median("bus_bandwidth_Bps")
    FROM raw.allreduce GROUP BY run_id, library, world_size, size_bytes, concurrent, trial
),
other AS (
    SELECT
        run_id, metric, point, value,
        sum(value) OVER same - value AS total, count(*) OVER same - 1 AS others
    FROM trial
    WINDOW same AS (PARTITION BY run_id, metric, point)
)
SELECT
    run_id, metric, point,
    100 * avg(abs((total / others - value) / nullif(value, 0))) AS noise_floor_percent,
    count(*) AS noise_windows
FROM other WHERE others > 0 GROUP BY run_id, metric, point;
COMMENT ON VIEW report.noise_within_run IS 'How well the windows of a run forecast each other, one row per run, metric and point that has two or more';
COMMENT ON COLUMN report.noise_within_run.run_id IS 'The run';
COMMENT ON COLUMN report.noise_within_run.metric IS 'What was measured';
COMMENT ON COLUMN report.noise_within_run.point IS 'Where on a probe''s grid; empty: the whole run';
COMMENT ON COLUMN report.noise_within_run.noise_floor_percent IS 'Mean absolute error, percent, of forecasting each window or trial by the mean of the others; NULL: they are 0';
COMMENT ON COLUMN report.noise_within_run.noise_windows IS 'Number of windows or trials forecast so';

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
