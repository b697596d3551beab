-- Runs keep what a study asked of their probe: figures stay comparable with those of runs from before.
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
),
-- What a probe found out itself is no part of what it was asked to do, and points of a grid have histories of
-- their own, whatever else was asked.
comparable AS (
    SELECT
        *,
        json_merge_patch(
            config,
            '{"stationary": null, "windows": null, "discarded_windows": null, "iterations": null,
            "half_width": null, "discarded_pieces": null, "stolen_cpu_fraction": null,
            "gauge_us": null, "settings": null}'
        )::VARCHAR AS asked
    FROM raw.run WHERE status = 'ok'
)
SELECT
    sha256(concat_ws(chr(10), backend, host_id, probe, coalesce(scenario_id, ''), asked))[:16]
        AS comparable_id,
    backend, host_id, probe, scenario_id, metric, unit, point, value, run_id, purpose, study, repeat,
    started_at, loaded.sequence
FROM figure
JOIN comparable USING (run_id)
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
