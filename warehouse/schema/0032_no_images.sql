-- What a network without images is called says nothing of pixels: as records.Scenario.label.

CREATE OR REPLACE VIEW report.scenario AS
WITH known AS (
    SELECT scenario_id, any_value(canonical) AS canonical FROM raw.scenario GROUP BY scenario_id
),
flat AS (
    SELECT
        scenario_id,
        canonical ->> '$.workload.dnn' AS dnn,
        canonical ->> '$.workload.framework' AS framework,
        (canonical ->> '$.workload.image_size')::INTEGER AS image_size,
        (canonical ->> '$.workload.batch_size')::INTEGER AS batch_size,
        canonical ->> '$.strategy.kind' AS strategy,
        (canonical ->> '$.strategy.workers')::INTEGER AS workers,
        (canonical ->> '$.strategy.servers')::INTEGER AS servers,
        coalesce((canonical ->> '$.strategy.devices_per_node')::INTEGER, 1) AS devices_per_node,
        coalesce(canonical ->> '$.strategy.placement', 'round_robin') AS placement,
        coalesce(canonical ->> '$.strategy.order', 'framework') AS transfer_order,
        from_json(
            canonical -> '$.nodes',
            '[{"role": "VARCHAR", "node_type": "VARCHAR", "count": "INTEGER", "batch_size": "INTEGER"}]'
        ) AS nodes,
        (canonical ->> '$.link_mbps')::DOUBLE AS link_mbps,
        (canonical ->> '$.cross_traffic')::DOUBLE AS cross_traffic
    FROM known
),
counted AS (
    SELECT
        scenario_id, node.node_type,
        concat_ws(' ', node.node_type, 'b' || node.batch_size) AS kind,
        sum(node.count)::BIGINT AS nodes
    FROM (SELECT scenario_id, unnest(nodes) AS node FROM flat)
    WHERE node.role = 'worker' GROUP BY ALL
),
typed AS (
    SELECT
        scenario_id,
        string_agg(DISTINCT node_type, '+' ORDER BY node_type) AS worker_node_type,
        string_agg(format('{} {}', nodes, kind), ' + ' ORDER BY kind) AS mix,
        count(*) AS types
    FROM counted GROUP BY scenario_id
)
SELECT
    scenario_id, dnn, framework, image_size, batch_size, strategy, workers, servers,
    devices_per_node, placement, transfer_order, worker_node_type, mix AS worker_mix,
    link_mbps, cross_traffic,
    concat_ws(
        ', ',
        concat_ws(' ', dnn, format('{}px', nullif(image_size, 0)), format('b{}', batch_size)),
        coalesce(format('{:g} Mb/s', link_mbps), 'unshaped'),
        format('{:.0f}% cross traffic', 100 * cross_traffic),
        nullif(transfer_order, 'framework'),
        CASE
            WHEN strategy = 'all_reduce' AND devices_per_node > 1
            THEN format('all-reduce of {} devices each', devices_per_node)
            WHEN strategy = 'all_reduce' THEN 'all-reduce'
            WHEN servers > 1
            THEN concat_ws(' ', format('M={}', servers), nullif(placement, 'round_robin'))
        END,
        format(
            'W={}{}', workers,
            CASE WHEN types > 1 OR strategy = 'all_reduce' THEN format(' ({})', mix) ELSE '' END
        )
    ) AS label
FROM flat LEFT JOIN typed USING (scenario_id);
COMMENT ON VIEW report.scenario IS 'Scenarios of all landed runs, one row each, their canonical JSON in columns';
COMMENT ON COLUMN report.scenario.scenario_id IS 'Hash of the canonical JSON';
COMMENT ON COLUMN report.scenario.dnn IS 'Network that is trained';
COMMENT ON COLUMN report.scenario.framework IS 'tensorflow or pytorch';
COMMENT ON COLUMN report.scenario.image_size IS 'Side of the square input images, pixels; 0: it takes no images';
COMMENT ON COLUMN report.scenario.batch_size IS 'Images per step and device';
COMMENT ON COLUMN report.scenario.strategy IS 'How training is distributed, for example async_parameter_server';
COMMENT ON COLUMN report.scenario.workers IS 'Number of workers';
COMMENT ON COLUMN report.scenario.servers IS 'Number of parameter servers';
COMMENT ON COLUMN report.scenario.devices_per_node IS 'Ranks on each worker node';
COMMENT ON COLUMN report.scenario.placement IS 'How variables are divided among several servers';
COMMENT ON COLUMN report.scenario.transfer_order IS 'Order in which tensors are sent to a worker; framework: none is enforced';
COMMENT ON COLUMN report.scenario.worker_node_type IS 'Node type of the workers; several are joined by +';
COMMENT ON COLUMN report.scenario.worker_mix IS 'Number of workers of each node type, for example 2 a + 1 b';
COMMENT ON COLUMN report.scenario.link_mbps IS 'Shaped speed of each link, megabits per second; NULL: not shaped';
COMMENT ON COLUMN report.scenario.cross_traffic IS 'Fraction of the servers'' links that others use in each direction; NULL: none';
COMMENT ON COLUMN report.scenario.label IS 'Short name for tables';
