-- What was measured of each scenario, how much equal runs differ, and what runs have in common.

-- The within-run spread is one definition for any number of windows: (largest - smallest) / mean.
CREATE VIEW report.measured AS
WITH figure AS (
    SELECT
        run_id, metric, any_value(unit) AS unit,
        coalesce(avg(value) FILTER ("window" IS NOT NULL), avg(value)) AS value,
        max(value) FILTER ("window" IS NOT NULL) AS largest,
        min(value) FILTER ("window" IS NOT NULL) AS smallest,
        count(value) FILTER ("window" IS NOT NULL) AS n_windows
    FROM raw.sample GROUP BY run_id, metric
),
host AS (
    SELECT
        run_id,
        any_value(value) FILTER (metric = 'idle_cpu_fraction') AS idle_cpu_fraction,
        any_value(value) FILTER (metric = 'stolen_cpu_fraction') AS stolen_cpu_fraction
    FROM figure GROUP BY run_id
)
SELECT
    run_id, run.scenario_id, run.backend, run.host_id, figure.metric, figure.unit, figure.value,
    CASE WHEN n_windows > 1 THEN 100 * (largest - smallest) / nullif(value, 0) END AS spread_percent,
    n_windows, idle_cpu_fraction, stolen_cpu_fraction, run.started_at, run.study, run.repeat
FROM raw.run AS run
JOIN figure USING (run_id)
LEFT JOIN host USING (run_id)
WHERE run.purpose = 'measurement' AND run.status = 'ok' AND figure.value IS NOT NULL;
COMMENT ON VIEW report.measured IS 'What measurement runs found, one row per ok run and metric';
COMMENT ON COLUMN report.measured.run_id IS 'The run';
COMMENT ON COLUMN report.measured.scenario_id IS 'What ran';
COMMENT ON COLUMN report.measured.backend IS 'Where it ran';
COMMENT ON COLUMN report.measured.host_id IS 'Host that measured';
COMMENT ON COLUMN report.measured.metric IS 'What was measured';
COMMENT ON COLUMN report.measured.unit IS 'Unit of the value';
COMMENT ON COLUMN report.measured.value IS 'Mean over the windows of the run, or the whole-run figure where there are none';
COMMENT ON COLUMN report.measured.spread_percent IS 'Within-run spread, percent: (largest - smallest window) / mean; NULL below two windows';
COMMENT ON COLUMN report.measured.n_windows IS 'Number of windows the value is the mean of; 0: a whole-run figure';
COMMENT ON COLUMN report.measured.idle_cpu_fraction IS 'Part of the host''s processor time that was idle, 0 to 1; NULL: not measured';
COMMENT ON COLUMN report.measured.stolen_cpu_fraction IS 'Part of it that the host''s hypervisor took, 0 to 1; NULL: not measured';
COMMENT ON COLUMN report.measured.started_at IS 'When the run started, UTC';
COMMENT ON COLUMN report.measured.study IS 'Study that asked for the run';
COMMENT ON COLUMN report.measured.repeat IS 'Round of the study';

-- Each run is forecast by the mean of the runs of other rounds: other clusters, the same scenario.
CREATE VIEW report.noise AS
WITH other AS (
    SELECT
        scenario_id, backend, host_id, metric, value,
        sum(value) OVER subject - sum(value) OVER round AS total,
        count(*) OVER subject - count(*) OVER round AS runs
    FROM report.measured
    WINDOW
        subject AS (PARTITION BY scenario_id, backend, host_id, metric),
        round AS (PARTITION BY scenario_id, backend, host_id, metric, study, repeat)
)
SELECT
    scenario_id, backend, host_id, metric,
    100 * avg(abs(total / runs - value) / nullif(value, 0)) FILTER (runs > 0) AS noise_floor_percent,
    count(*) FILTER (runs > 0) AS noise_runs
FROM other GROUP BY scenario_id, backend, host_id, metric;
COMMENT ON VIEW report.noise IS 'How well repeated measurement forecasts itself, one row per scenario, backend, host and metric';
COMMENT ON COLUMN report.noise.scenario_id IS 'What ran';
COMMENT ON COLUMN report.noise.backend IS 'Where it ran';
COMMENT ON COLUMN report.noise.host_id IS 'Host that measured';
COMMENT ON COLUMN report.noise.metric IS 'What was measured';
COMMENT ON COLUMN report.noise.noise_floor_percent IS 'Mean absolute error, percent, of forecasting each run by the mean of its runs in other rounds; NULL below two rounds';
COMMENT ON COLUMN report.noise.noise_runs IS 'Number of runs forecast so; 0 below two rounds';

CREATE VIEW report.dnn_family AS
SELECT dnn, any_value(family) AS family FROM raw.dnn WHERE family IS NOT NULL GROUP BY dnn;
COMMENT ON VIEW report.dnn_family IS 'Networks whose family is known, one row per network; a matter of names, the same on all backends';
COMMENT ON COLUMN report.dnn_family.dnn IS 'Name of the network';
COMMENT ON COLUMN report.dnn_family.family IS 'Networks of one design, for example resnet';

-- Repeats are forecast by the mean of the others here too; of an imported file nothing else is known.
CREATE VIEW report.external AS
WITH figure AS (
    SELECT
        run_id, sha256(subject::VARCHAR)[:16] AS subject_id, metric, unit, value,
        sum(value) OVER same - value AS total, count(*) OVER same - 1 AS others
    FROM raw.external WHERE value IS NOT NULL
    WINDOW same AS (PARTITION BY run_id, subject, metric)
)
SELECT
    run_id, subject_id, run.backend, run.host_id, metric, any_value(unit) AS unit,
    avg(value) AS value, count(*) AS repeats,
    100 * avg(abs(total / others - value) / nullif(value, 0)) FILTER (others > 0)
        AS noise_floor_percent,
    count(*) FILTER (others > 0) AS noise_runs, run.study
FROM figure JOIN raw.run AS run USING (run_id)
WHERE run.purpose = 'measurement' AND run.status = 'ok'
GROUP BY run_id, subject_id, run.backend, run.host_id, metric, run.study;
COMMENT ON VIEW report.external IS 'What others measured and predictions are judged by, one row per run, subject and metric';
COMMENT ON COLUMN report.external.run_id IS 'The run that stands for the imported file';
COMMENT ON COLUMN report.external.subject_id IS 'Hash of the subject''s JSON: equal words, equal ids';
COMMENT ON COLUMN report.external.backend IS 'imported';
COMMENT ON COLUMN report.external.host_id IS 'What the file says of the machine, hashed; imported: nothing';
COMMENT ON COLUMN report.external.metric IS 'What was measured';
COMMENT ON COLUMN report.external.unit IS 'Unit of the value';
COMMENT ON COLUMN report.external.value IS 'Mean of its repeats, in the unit of this row';
COMMENT ON COLUMN report.external.repeats IS 'Number of repeats in the file';
COMMENT ON COLUMN report.external.noise_floor_percent IS 'Mean absolute error, percent, of forecasting each repeat by the mean of the others; NULL: no second repeat';
COMMENT ON COLUMN report.external.noise_runs IS 'Number of repeats forecast so; 0: no second repeat';
COMMENT ON COLUMN report.external.study IS 'Study the file was imported for; only its predictions are judged';

-- What a network without images is called says nothing of pixels: as records.Scenario.label.

CREATE VIEW report.scenario AS
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
        canonical ->> '$.workload.precision' AS precision,
        canonical ->> '$.workload.optimizer' AS optimizer,
        coalesce((canonical ->> '$.workload.accumulate')::INTEGER, 1) AS accumulate,
        coalesce(canonical ->> '$.workload.memory_format', 'contiguous') AS memory_format,
        canonical ->> '$.workload.compiled' AS compiled,
        (canonical ->> '$.workload.sequence_length')::INTEGER AS sequence_length,
        concat_ws(
            ', ',
            nullif(precision, 'float32'),
            nullif(optimizer, 'sgd'),
            CASE WHEN accumulate > 1 THEN format('{} passes a step', accumulate) END,
            nullif(memory_format, 'contiguous'),
            CASE
                WHEN compiled = 'default' THEN 'compiled'
                WHEN compiled IS NOT NULL THEN format('compiled ({})', compiled)
            END
        ) AS recipe,
        canonical ->> '$.strategy.kind' AS strategy,
        (canonical ->> '$.strategy.workers')::INTEGER AS workers,
        (canonical ->> '$.strategy.servers')::INTEGER AS servers,
        coalesce((canonical ->> '$.strategy.devices_per_node')::INTEGER, 1) AS devices_per_node,
        concat_ws(
            ', ',
            'tensor parallel ' || (canonical ->> '$.strategy.tensor_parallel'),
            'pipeline parallel ' || (canonical ->> '$.strategy.pipeline_parallel'),
            'virtual stages ' || (canonical ->> '$.strategy.virtual_stages')
        ) AS layout,
        coalesce(canonical ->> '$.strategy.placement', 'round_robin') AS placement,
        coalesce(canonical ->> '$.strategy.order', 'framework') AS transfer_order,
        from_json(
            canonical -> '$.nodes',
            '[{"role": "VARCHAR", "node_type": "VARCHAR", "count": "INTEGER", "batch_size": "INTEGER"}]'
        ) AS nodes,
        (canonical ->> '$.link_mbps')::DOUBLE AS link_mbps,
        (canonical ->> '$.cross_traffic')::DOUBLE AS cross_traffic,
        canonical ->> '$.what_if' AS what_if
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
    link_mbps, cross_traffic, precision, optimizer, accumulate, memory_format, compiled,
    sequence_length, recipe,
    concat_ws(
        ', ',
        concat_ws(
            ' ', dnn, format('{}px', nullif(image_size, 0)), format('{} words', sequence_length),
            format('b{}', batch_size)
        ),
        nullif(recipe, ''),
        CASE
            WHEN strategy <> 'single' THEN coalesce(format('{:g} Mb/s', link_mbps), 'unshaped')
        END,
        format('{:.0f}% cross traffic', 100 * cross_traffic),
        nullif(transfer_order, 'framework'),
        CASE
            WHEN servers = 0 AND strategy <> 'single'
            THEN concat_ws(
                ', ',
                concat_ws(
                    ' ', replace(strategy, '_', '-'),
                    CASE WHEN devices_per_node > 1 THEN format('of {} devices each', devices_per_node) END
                ),
                nullif(layout, '')
            )
            WHEN servers > 1
            THEN concat_ws(' ', format('M={}', servers), nullif(placement, 'round_robin'))
        END,
        format(
            '{}{}', CASE WHEN strategy = 'single' THEN strategy ELSE format('W={}', workers) END,
            CASE WHEN types > 1 OR servers = 0 THEN format(' ({})', mix) ELSE '' END
        ),
        what_if
    ) AS label
FROM flat LEFT JOIN typed USING (scenario_id);
COMMENT ON VIEW report.scenario IS 'Scenarios of all landed runs, one row each, their canonical JSON in columns';
COMMENT ON COLUMN report.scenario.scenario_id IS 'Hash of the canonical JSON';
COMMENT ON COLUMN report.scenario.dnn IS 'Network that is trained';
COMMENT ON COLUMN report.scenario.framework IS 'tensorflow or pytorch';
COMMENT ON COLUMN report.scenario.image_size IS 'Side of the square input images, pixels; 0: it takes no images';
COMMENT ON COLUMN report.scenario.batch_size IS 'Samples of a pass of each device';
COMMENT ON COLUMN report.scenario.strategy IS 'How training is distributed, for example async_parameter_server; single: one device, not as a replica';
COMMENT ON COLUMN report.scenario.workers IS 'Number of workers';
COMMENT ON COLUMN report.scenario.servers IS 'Number of parameter servers';
COMMENT ON COLUMN report.scenario.devices_per_node IS 'Ranks on each worker node';
COMMENT ON COLUMN report.scenario.placement IS 'How variables are divided among several servers';
COMMENT ON COLUMN report.scenario.transfer_order IS 'Order in which tensors are sent to a worker; framework: none is enforced';
COMMENT ON COLUMN report.scenario.worker_node_type IS 'Node type of the workers; several are joined by +';
COMMENT ON COLUMN report.scenario.worker_mix IS 'Number of workers of each node type, for example 2 a + 1 b';
COMMENT ON COLUMN report.scenario.link_mbps IS 'Shaped speed of each link, megabits per second; NULL: not shaped';
COMMENT ON COLUMN report.scenario.cross_traffic IS 'Fraction of the servers'' links that others use in each direction; NULL: none';
COMMENT ON COLUMN report.scenario.precision IS 'float32 (PyTorch''s default, TF32 in cuDNN), tf32, bfloat16 or float16 (autocast)';
COMMENT ON COLUMN report.scenario.optimizer IS 'sgd (no momentum), momentum, adam or adamw';
COMMENT ON COLUMN report.scenario.accumulate IS 'Passes whose gradients a step adds up';
COMMENT ON COLUMN report.scenario.memory_format IS 'contiguous or channels_last';
COMMENT ON COLUMN report.scenario.compiled IS 'Mode of torch.compile; NULL: the step is eager';
COMMENT ON COLUMN report.scenario.sequence_length IS 'Words of a sample; NULL: it has none, or nobody said';
COMMENT ON COLUMN report.scenario.recipe IS 'How the network is trained, in words; empty: in float32, by plain SGD, one pass a step. None stands for another';
COMMENT ON COLUMN report.scenario.label IS 'Short name for tables';

-- Units of a GPU that compute in half precision are others than those that do in full. Networks of images are taken to
-- consist of convolutions, those of words of matrix products.
CREATE MACRO report.device(node_type, "precision", image_size) AS
    node_type || CASE WHEN "precision" IN ('bfloat16', 'float16') THEN ' half' ELSE ' full' END
    || CASE WHEN image_size > 1 THEN ' images' ELSE ' words' END;

-- One row a fit: its parameters may have a megabyte, so nothing that has a row for each thing it saw joins them.
CREATE VIEW report.fit_devices AS
SELECT
    fit_id,
    -- Fits of earlier versions tell no kind of network.
    flatten(list_transform(
        (parameters -> '$.timed_nodes')::VARCHAR[],
        lambda one: CASE
            WHEN regexp_matches(one, ' (half|full)$') THEN [one || ' images', one || ' words'] ELSE [one]
        END
    )) AS devices
FROM fit.fit
WHERE contains(row_filter, 'external');
COMMENT ON VIEW report.fit_devices IS 'Devices whose operators fits to measurements of others saw, as their parameters tell, one row per such fit';
COMMENT ON COLUMN report.fit_devices.fit_id IS 'The fit';
COMMENT ON COLUMN report.fit_devices.devices IS 'Node types, or families of them, each with half or full, and images or words; NULL: its parameters tell of none';

CREATE VIEW report.subject AS
WITH known AS (
    SELECT
        'scenario' AS subject_kind, scenario_id AS subject_id, label, dnn, NULL AS family,
        worker_node_type AS node_type, workers AS world_size, report.device(worker_node_type, "precision", image_size) AS device
    FROM report.scenario
    UNION ALL
    SELECT
        'external', sha256(subject)[:16], subject, subject ->> '$.dnn', subject ->> '$.family',
        subject ->> '$.node_type', try_cast(subject ->> '$.world_size' AS INTEGER), NULL
    FROM (SELECT DISTINCT subject::VARCHAR AS subject FROM raw.external)
)
SELECT
    subject_kind, subject_id, label, dnn, coalesce(known.family, named.family) AS family, node_type,
    world_size, device
FROM known LEFT JOIN report.dnn_family AS named USING (dnn);
COMMENT ON VIEW report.subject IS 'What predictions are of and fits see: scenarios, and subjects of imported files';
COMMENT ON COLUMN report.subject.subject_kind IS 'scenario or external';
COMMENT ON COLUMN report.subject.subject_id IS 'A scenario_id, or the hash of an imported subject''s JSON';
COMMENT ON COLUMN report.subject.label IS 'Short name of a scenario; the JSON of an imported subject';
COMMENT ON COLUMN report.subject.dnn IS 'Network; NULL: the subject names none';
COMMENT ON COLUMN report.subject.family IS 'Networks of one design; NULL: not known';
COMMENT ON COLUMN report.subject.node_type IS 'Node type of the workers, several joined by +; NULL: the subject names none';
COMMENT ON COLUMN report.subject.world_size IS 'Number of workers; NULL: the subject names none';
COMMENT ON COLUMN report.subject.device IS 'Node type of the workers, and whether it computes in half precision or in full, images or words: gpu.h100 half words; NULL: the subject is no scenario';

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

-- What rented nodes cost when a run was measured is no part of what was asked of it: prices of the spot market change
-- from hour to hour, and figures stay comparable. Declared prices are part of what a node type is.
CREATE VIEW report.configuration AS
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

-- Points that were measured while the host was busy count in no figure of how wrong forecasts were: sealed ones are
-- told apart by host_busy as in report.accuracy, and runs of a busy host are no ratio of measured to forecast time.

CREATE MACRO report.was_busy(idle_cpu_fraction, stolen_cpu_fraction) AS
    coalesce(idle_cpu_fraction < 0.20, false) OR coalesce(stolen_cpu_fraction > 0.02, false);

-- Systems may learn from steps on other hosts. A node type there is another type than the one of that name here, as in
-- models.predictddl.observations: it is called type@host. A fit that saw only such types says nothing of this host.

CREATE MACRO report.type_on(node_type, measured_on, asked_of) AS
    CASE WHEN measured_on <> asked_of THEN node_type || '@' || measured_on[:8] ELSE node_type END;

-- A host with few steps learns from others and corrects that (models.predictddl.fit): a split of its own.
-- So is a device that fits to measurements of others know by its data sheet alone.

CREATE MACRO report.split_of(
    subject_ids, dnns, families, node_types, world_sizes, subject, dnn, family, node_type, world_size, devices, device
) AS
    CASE
        WHEN NOT (
            list_contains(devices, device) OR list_contains(devices, regexp_replace(device, '\.\S*', ''))
        )
            THEN 'held_out_device'
        WHEN len(node_types) > 0 AND list_bool_and(list_transform(node_types, lambda one: regexp_matches(one, '@[^@ ]{1,8}$')))
            THEN 'held_out_host'
        WHEN list_contains(subject_ids, subject) THEN 'seen'
        WHEN list_bool_or(list_transform(node_types, lambda one: regexp_matches(one, '@[^@ ]{1,8}$')))
            THEN 'few_on_host'
        WHEN NOT list_contains(dnns, dnn)
            AND NOT list_contains(families, family) THEN 'held_out_family'
        WHEN dnn IS NOT NULL AND NOT coalesce(list_contains(dnns, dnn), false)
            THEN 'held_out_dnn'
        WHEN NOT list_contains(node_types, node_type) THEN 'held_out_node_type'
        WHEN NOT list_contains(world_sizes, world_size) THEN 'held_out_world_size'
        ELSE 'held_out_scenario'
    END;
