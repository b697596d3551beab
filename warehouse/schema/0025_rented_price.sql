-- What rented nodes cost when a run was measured is no part of what was asked of it: prices of the spot market change
-- from hour to hour, and figures stay comparable. Declared prices are part of what a node type is.
CREATE OR REPLACE VIEW report.configuration AS
WITH asked AS (
    SELECT
        *,
        json_merge_patch(
            config,
            CASE WHEN backend = 'ec2' THEN '{"usd_per_hour": null}' ELSE '{}' END,
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
