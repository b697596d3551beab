-- How far would scenarios be from what fits to some runs saw, as report.accuracy has it?
-- $asked: JSON, a list with the host_id (that it is about), the run_ids and the asked of each fit: scenarios by id, with
-- their canonical JSON; NULL: every prediction of the ledger that was merely asked for. One row per fit (by its place in the
-- list, from 0) and scenario.
WITH given AS (
    SELECT generate_subscripts(fits, 1) - 1 AS fit, unnest(fits) AS one, NULL AS devices
    FROM (
        SELECT
            from_json(
                coalesce($asked::VARCHAR, '[]')::JSON,
                '[{"host_id": "VARCHAR", "run_ids": ["VARCHAR"], "asked": [{"subject_id": "VARCHAR", "canonical": "JSON"}]}]'
            ) AS fits
    )
    UNION ALL
    SELECT
        row_number() OVER (ORDER BY prediction.sequence) - 1,
        {'host_id': prediction.host_id, 'run_ids': run_ids, 'asked': [{'subject_id': subject_id, 'canonical': canonical}]}, devices
    FROM pred.ledger AS prediction
    JOIN pred.asked_scenario AS scenario ON scenario_id = subject_id
    JOIN fit.fit USING (fit_id)
    LEFT JOIN report.fit_devices USING (fit_id)
    WHERE $asked::VARCHAR IS NULL AND study IS NULL
),
subject AS (
    SELECT
        fit, subject_id, canonical ->> '$.workload.dnn' AS dnn,
        array_to_string(
            list_sort(list_distinct(list_transform(
                list_filter(
                    from_json(canonical -> '$.nodes', '[{"role": "VARCHAR", "node_type": "VARCHAR"}]'),
                    lambda node: node.role = 'worker'
                ),
                lambda node: node.node_type
            ))), '+'
        ) AS node_type,
        (canonical ->> '$.strategy.workers')::INTEGER AS world_size,
        report.device(
            node_type, coalesce(canonical ->> '$.workload.precision', 'float32'),
            (canonical ->> '$.workload.image_size')::INTEGER
        ) AS device,
        devices
    FROM (SELECT fit, devices, unnest(one.asked, recursive := true) FROM given)
),
fitted AS (
    SELECT
        fit,
        coalesce(list(DISTINCT subject_id) FILTER (run.host_id = coalesce(saw.host_id, run.host_id)), [])
            AS subject_ids,
        coalesce(list(DISTINCT dnn), []) AS dnns,
        CASE WHEN bool_and(family IS NOT NULL) THEN list(DISTINCT family) END AS families,
        coalesce(list(DISTINCT report.type_on(node_type, run.host_id, saw.host_id)), []) AS node_types,
        coalesce(list(DISTINCT world_size), []) AS world_sizes
    FROM (SELECT fit, one.host_id, unnest(one.run_ids) AS run_id FROM given) AS saw
    JOIN raw.run AS run USING (run_id)
    JOIN report.subject AS known
        ON known.subject_kind = 'scenario' AND known.subject_id = run.scenario_id
    GROUP BY fit
)
SELECT
    fit, subject.subject_id, dnn, subject.node_type, subject.world_size,
    report.split_of(
        fitted.subject_ids, fitted.dnns, fitted.families, fitted.node_types, fitted.world_sizes,
        subject.subject_id, dnn, named.family, subject.node_type, subject.world_size,
        subject.devices, subject.device
    ) AS split
FROM subject
LEFT JOIN fitted USING (fit)
LEFT JOIN report.dnn_family AS named USING (dnn)
ORDER BY fit, subject_id;
