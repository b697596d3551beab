-- What was measured, how wrong predictions of it were, and how wrong they could not help being.
CREATE SCHEMA report;

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
        format('{} {}px b{}', dnn, image_size, batch_size),
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
COMMENT ON COLUMN report.scenario.image_size IS 'Side of the square input images, pixels';
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

CREATE VIEW report.subject AS
WITH known AS (
    SELECT
        'scenario' AS subject_kind, scenario_id AS subject_id, label, dnn, NULL AS family,
        worker_node_type AS node_type, workers AS world_size
    FROM report.scenario
    UNION ALL
    SELECT
        'external', sha256(subject)[:16], subject, subject ->> '$.dnn', subject ->> '$.family',
        subject ->> '$.node_type', try_cast(subject ->> '$.world_size' AS INTEGER)
    FROM (SELECT DISTINCT subject::VARCHAR AS subject FROM raw.external)
)
SELECT
    subject_kind, subject_id, label, dnn, coalesce(known.family, named.family) AS family, node_type,
    world_size
FROM known LEFT JOIN report.dnn_family AS named USING (dnn);
COMMENT ON VIEW report.subject IS 'What predictions are of and fits see: scenarios, and subjects of imported files';
COMMENT ON COLUMN report.subject.subject_kind IS 'scenario or external';
COMMENT ON COLUMN report.subject.subject_id IS 'A scenario_id, or the hash of an imported subject''s JSON';
COMMENT ON COLUMN report.subject.label IS 'Short name of a scenario; the JSON of an imported subject';
COMMENT ON COLUMN report.subject.dnn IS 'Network; NULL: the subject names none';
COMMENT ON COLUMN report.subject.family IS 'Networks of one design; NULL: not known';
COMMENT ON COLUMN report.subject.node_type IS 'Node type of the workers, several joined by +; NULL: the subject names none';
COMMENT ON COLUMN report.subject.world_size IS 'Number of workers; NULL: the subject names none';

CREATE VIEW report.fitted AS
WITH saw AS (
    SELECT fit_id, backend, unnest(run_ids) AS run_id FROM fit.fit
),
seen AS (
    SELECT fit_id, saw.backend, 'scenario' AS subject_kind, scenario_id AS subject_id
    FROM saw JOIN raw.run USING (run_id)
    UNION ALL
    SELECT DISTINCT fit_id, backend, 'external', sha256(subject::VARCHAR)[:16]
    FROM saw JOIN raw.external USING (run_id)
)
SELECT
    fit_id, any_value(backend) AS backend,
    coalesce(list(DISTINCT subject_id), []) AS subject_ids,
    coalesce(list(DISTINCT dnn), []) AS dnns,
    CASE WHEN bool_and(family IS NOT NULL) THEN list(DISTINCT family) END AS families,
    coalesce(list(DISTINCT node_type), []) AS node_types,
    coalesce(list(DISTINCT world_size), []) AS world_sizes
FROM seen
JOIN report.subject USING (subject_kind, subject_id)
GROUP BY fit_id;
COMMENT ON VIEW report.fitted IS 'What each fit saw, one row per fit that saw a scenario or a subject of an imported file';
COMMENT ON COLUMN report.fitted.fit_id IS 'The fit';
COMMENT ON COLUMN report.fitted.backend IS 'Backend the rows it saw came from';
COMMENT ON COLUMN report.fitted.subject_ids IS 'Scenarios and imported subjects of the runs it saw';
COMMENT ON COLUMN report.fitted.dnns IS 'Their networks';
COMMENT ON COLUMN report.fitted.families IS 'Families of those networks; NULL: the family of one is not known';
COMMENT ON COLUMN report.fitted.node_types IS 'Their worker node types';
COMMENT ON COLUMN report.fitted.world_sizes IS 'Their numbers of workers';

-- Every node of a scenario is paid for. The newest observed price counts, else what the catalogue has.
CREATE VIEW report.hourly_cost AS
WITH observed AS (
    SELECT market, node_type, usd_per_hour, 'observed ' || observed_at::DATE AS price_source
    FROM raw.price
    QUALIFY row_number() OVER (
        PARTITION BY market, node_type ORDER BY observed_at DESC, usd_per_hour, region, zone
    ) = 1
),
price AS (
    FROM observed
    UNION ALL BY NAME
    SELECT market, node_type, usd_per_hour, paper || ', ' || place AS price_source
    FROM catalog.price ANTI JOIN observed USING (market, node_type)
),
node AS (
    SELECT
        scenario_id,
        unnest(
            from_json(canonical -> '$.nodes', '[{"node_type": "VARCHAR", "count": "INTEGER"}]'),
            recursive := true
        )
    FROM (SELECT DISTINCT scenario_id, canonical FROM raw.scenario)
),
market AS (
    SELECT unnest(['on_demand', 'spot']) AS market
)
SELECT
    scenario_id, market,
    CASE WHEN bool_and(usd_per_hour IS NOT NULL) THEN sum("count" * usd_per_hour) END AS usd_per_hour,
    string_agg(node_type, ', ' ORDER BY node_type) FILTER (usd_per_hour IS NULL) AS unpriced,
    string_agg(DISTINCT price_source, '; ' ORDER BY price_source) AS price_source
FROM node CROSS JOIN market LEFT JOIN price USING (market, node_type)
GROUP BY scenario_id, market;
COMMENT ON VIEW report.hourly_cost IS 'What an hour of a scenario costs, all its nodes together, one row per scenario and market';
COMMENT ON COLUMN report.hourly_cost.scenario_id IS 'What runs';
COMMENT ON COLUMN report.hourly_cost.market IS 'on_demand or spot';
COMMENT ON COLUMN report.hourly_cost.usd_per_hour IS 'US dollars per hour; NULL: a node type has no price';
COMMENT ON COLUMN report.hourly_cost.unpriced IS 'Node types without a price; NULL: none';
COMMENT ON COLUMN report.hourly_cost.price_source IS 'When prices were observed, or which paper prints or file declares them';
