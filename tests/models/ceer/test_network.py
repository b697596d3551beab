import json

import polars as pl
import pytest

from models.ceer.operations import (
    COLUMNS,
    OBSERVED,
    observed_operations,
    operation_sums,
    operations_of_graph,
)
from networks.operation_graph import GraphOperation, OperationGraph
from tests.made_run import raw_table
from tests.models.ceer import study
from tests.models.runs import scenario

SCENARIO = scenario()


def graph_operation(name: str, side: int) -> GraphOperation:
    shape = json.dumps([[8, side]])
    return GraphOperation(name, "Relu", shape, shape, "{}", 32 * side, 32 * side)


def test_equal_operations_of_a_graph_are_counted() -> None:
    operations = tuple(graph_operation(name, side) for name, side in (("a", 2), ("b", 3), ("c", 2)))
    network = operations_of_graph(OperationGraph("new", 8, 32, 100, operations))
    assert network.operations.select("type", "count", "input_bytes").rows() == [
        *[("Relu", 2.0, 64), ("Relu", 1.0, 96)]
    ]
    assert network.operations.columns == list(COLUMNS)
    assert (network.dnn, network.batch_size, network.parameter_count) == ("new", 8, 100)


def tables(*run_ids: str) -> dict[str, pl.DataFrame]:
    """Return raw tables of runs of one scenario: two equal ReLUs, a product, a transfer."""
    operations, times = [], []
    for slower, run_id in enumerate(run_ids):
        for number, (kind, resource, us) in enumerate(
            (
                ("Relu", "worker", 10),
                ("Relu", "worker", 20),
                ("MatMul", "worker", 600),
                ("_Recv", "downlink", 9000),
                ("Neg", "worker", None),
            )
        ):
            operations.append((run_id, number, kind, resource, "host", 64, 64))
            if us is not None:
                times.append((run_id, number, us + 2.0 * slower, 7.0, 1.0))
    shapes = [(run_id, 2, "[[4, 4], [4, 4]]", "[[4, 4]]", "{}") for run_id in run_ids]
    known: study.Rows = {
        "run": ("run_id scenario_id", [(run_id, SCENARIO.scenario_id) for run_id in run_ids]),
        "scenario": ("scenario_id canonical", [(SCENARIO.scenario_id, SCENARIO.canonical_json())]),
        "operation": ("run_id operation type resource device input_bytes output_bytes", operations),
        "operation_time": ("run_id operation mean_us median_us sd_us", times),
        "sample": ("run_id metric value", []),
        "operation_shape": ("run_id operation inputs outputs attributes", shapes),
    }
    return {name: raw_table(name, *rows) for name, rows in known.items()}


def test_equal_operations_of_a_run_are_one_row() -> None:
    rows = observed_operations(tables("run1"))
    assert rows.schema == OBSERVED
    assert rows.select("type", "count", "mean_us", "inputs").rows() == [
        ("MatMul", 1.0, 600.0, "[[4, 4], [4, 4]]"),
        ("Relu", 2.0, 15.0, None),
    ]
    assert rows.select("dnn", "image_size", "batch_size", "node_type").row(0) == (
        *("small_cnn", 32, 8, "emu.1c"),
    )


def test_repeated_runs_count_with_their_mean() -> None:
    rows = observed_operations(tables("run1", "run2"))
    by_type = {row[0]: row[1:] for row in rows.select("type", "count", "mean_us").rows()}
    assert by_type == {"Relu": (2.0, 16.0), "MatMul": (1.0, 601.0)}
    assert operation_sums(rows)["operations_s"].to_list() == pytest.approx([633e-6])
