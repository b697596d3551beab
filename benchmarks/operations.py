"""A made-up history of profiled operations: what Ceer's benchmark fits."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload

Execute = Callable[[str, Mapping[str, object]], object]

DNNS = tuple(f"dnn{i:02d}" for i in range(12))
NODE_TYPES: Mapping[str, float] = {"old": 8.0, "middle": 4.0, "cheap": 2.0, "new": 1.0}
"""Node types, and how slow each is."""
TYPES = (*(f"Type{i:02d}" for i in range(22)), "Conv2D", "MatMul")
STEP_OPERATIONS = 2500
_DISTINCT = 400

_DESCRIBED = """
CREATE OR REPLACE TEMP TABLE distinct_operation AS
FROM read_parquet($file, hive_partitioning = false)
"""
_RUNS = """
INSERT INTO raw.run BY NAME
SELECT
    printf('%s-%05d', $scenario_id, run) AS run_id, 'tf_trace' AS probe, 'profile' AS purpose,
    'benchmark' AS study, run + 1 AS repeat, $scenario_id AS scenario_id, 'imported' AS backend,
    'ok' AS status, now() AS started_at, now() AS ended_at, 'benchmark' AS host_id,
    '{}' AS host, '{}' AS software, '{}' AS config
FROM range($runs) AS numbers(run)
"""
_SCENARIOS = """
INSERT INTO raw.scenario BY NAME
SELECT run_id, $scenario_id AS scenario_id, $canonical AS canonical
FROM raw.run WHERE scenario_id = $scenario_id
"""
_SAMPLES = """
INSERT INTO raw.sample BY NAME
SELECT run_id, 'step_time_s' AS metric, 's' AS unit, $step_s::DOUBLE AS "value"
FROM raw.run WHERE scenario_id = $scenario_id
"""
_RECEIVED = """
INSERT INTO raw.operation BY NAME
SELECT
    run_id, $operations AS operation, 'weights' AS name, '_Recv' AS type, 'downlink' AS resource,
    $bytes::BIGINT AS size_bytes
FROM raw.run WHERE scenario_id = $scenario_id
"""
_OPERATIONS = """
INSERT INTO raw.operation BY NAME
SELECT
    run_id, operation, 'layer/operation_' || operation AS name, type, 'worker' AS resource,
    input_bytes, output_bytes
FROM (SELECT run_id FROM raw.run WHERE scenario_id = $scenario_id) CROSS JOIN distinct_operation
ORDER BY run_id, operation
"""
_SHAPES = """
INSERT INTO raw.operation_shape BY NAME
SELECT run_id, operation, inputs, outputs, attributes
FROM (SELECT run_id FROM raw.run WHERE scenario_id = $scenario_id) CROSS JOIN distinct_operation
ORDER BY run_id, operation
"""
_TIMES = """
INSERT INTO raw.operation_time BY NAME
SELECT
    run_id, operation, 200 AS steps, us * noise AS mean_us, us * noise AS median_us,
    us * noise * 0.05 AS sd_us, us * noise * 0.9 AS min_us, us * noise * 1.1 AS p95_us
FROM (
    SELECT
        run_id, operation, us * $slowness AS us,
        0.97 + 0.06 * (hash(run_id, operation) % 1000) / 1000 AS noise
    FROM (SELECT run_id FROM raw.run WHERE scenario_id = $scenario_id)
    CROSS JOIN distinct_operation
)
ORDER BY run_id, operation
"""


def fill(home: str, rows: int) -> float:
    """Make a warehouse of `rows` operations, as many of each DNN on each node type."""
    from warehouse.connection import connect, transaction
    from warehouse.publication import ensure_warehouse

    main = Path(home, "warehouse.duckdb")
    ensure_warehouse(main)
    runs = max(rows // STEP_OPERATIONS // len(DNNS) // len(NODE_TYPES), 1)
    with connect(main) as connection:
        for dnn, node_type in ((dnn, node_type) for dnn in DNNS for node_type in NODE_TYPES):
            with transaction(connection):
                step_us = _describe(Path(home), connection.execute, dnn)
                _fill_one(connection.execute, _scenario(dnn, node_type), runs, step_us)
    return 0.0


def _fill_one(execute: Execute, scenario: Scenario, runs: int, step_us: float) -> None:
    known = {"scenario_id": scenario.scenario_id}
    parameters = 10**6 * (5 + 10 * DNNS.index(scenario.workload.dnn))
    slowness = NODE_TYPES[scenario.nodes[0].node_type]
    step_s = step_us * slowness / 1e6 + 0.01 + 1e-9 * parameters
    execute(_RUNS, {**known, "runs": runs})
    execute(_SCENARIOS, {**known, "canonical": scenario.canonical_json()})
    execute(_SAMPLES, {**known, "step_s": step_s})
    execute(_OPERATIONS, known)
    execute(_RECEIVED, {**known, "operations": STEP_OPERATIONS, "bytes": 4 * parameters})
    execute(_SHAPES, known)
    execute(_TIMES, {**known, "slowness": slowness})


def _describe(home: Path, execute: Execute, dnn: str) -> float:
    """Put the operations of a DNN's step into a table and return what they take together, us."""
    import polars as pl

    frame = pl.DataFrame(list(_operations(DNNS.index(dnn))))
    frame.write_parquet(home / "step.parquet")
    execute(_DESCRIBED, {"file": str(home / "step.parquet")})
    return float(frame["us"].sum())


def _operations(dnn: int) -> Iterator[dict[str, object]]:
    """Yield the operations of a step: hundreds of different ones, each several times."""
    for operation in range(STEP_OPERATIONS):
        kind = operation % _DISTINCT
        name = TYPES[kind % len(TYPES)]
        side, channels = 4 + (kind * 7 + dnn * 3) % 29, 8 * (1 + (kind + dnn) % 16)
        image = [8, side, side, channels]
        inputs, attributes = [image], {}
        if name == "Conv2D":
            inputs = [image, [3, 3, channels, channels]]
            attributes = {"strides": [1, 1, 1, 1], "padding": "SAME"}
        elif name == "MatMul":
            inputs = [[8 * side, channels], [channels, channels]]
            image = [8 * side, channels]
        elements = 8 * side * side * channels
        heavy = 2.0 if kind % len(TYPES) > 11 else 0.02
        yield {
            "operation": operation,
            "type": name,
            "inputs": json.dumps(inputs),
            "outputs": json.dumps([image]),
            "attributes": json.dumps(attributes),
            "input_bytes": 4 * elements,
            "output_bytes": 4 * elements,
            "us": 5.0 + heavy * elements / 1000,
        }


def _scenario(dnn: str, node_type: str) -> Scenario:
    return Scenario(
        workload=TrainingWorkload(dnn=dnn, image_size=64, batch_size=8),
        strategy=Strategy(workers=1),
        nodes=(
            NodeGroup(role="worker", node_type=node_type, count=1),
            NodeGroup(role="server", node_type="server", count=1),
        ),
    )
