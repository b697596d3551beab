"""Operators of PyTorch, timed for real on an emulated node, and what Ceer makes of them."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from models.ceer.operations import observed_operations, select_computation
from networks.pytorch_graph import pytorch_graph
from profilers.clusters.node_types import node_group
from profilers.probe import RequestedScenarios
from profilers.torch_operations import probe as torch_operations
from tests.profilers.training import measured, samples, scenario, single
from warehouse.records import NodeGroup


@pytest.mark.measuring
@pytest.mark.cluster
def test_operators_are_those_of_the_graph(alone: None, tmp_path: Path) -> None:
    one_worker = scenario(node_group("worker", "emu.avx2.c15", 1), batch_size=4)
    of = RequestedScenarios(train=(one_worker,))
    (result,) = measured("torch_operations", tmp_path, of, timed_steps=12, untimed_steps=4)
    frames = result.tables
    graph = pytorch_graph("small_cnn", 4, 16)
    described = (
        frames["operation"].join(frames["operation_shape"], on="operation").sort("operation")
    )
    columns = ["name", "type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes"]
    expected = [tuple(getattr(op, column) for column in columns) for op in graph.operations]
    assert described.select(columns).rows() == expected
    assert frames["dnn"]["parameter_count"].to_list() == [graph.parameter_count]
    assert frames["operation_time"]["steps"].to_list() == [12] * len(expected)
    values = samples(result)
    assert values["unconfined_step_time_s"] < values["step_time_s"]
    sum_s = float(frames["operation_time"]["mean_us"].sum()) / 1e6
    assert sum_s == pytest.approx(values["traced_step_time_s"])


def test_operators_below_differentiation_are_summed() -> None:
    operators = [
        {"name": f"aten::relu_{i}", "type": "aten::relu", "inputs": "[[2]]", "outputs": "[[2]]"}
        | {"attributes": "{}", "input_bytes": 8, "output_bytes": 8}
        for i in range(2)
    ]
    run = {"run_id": "run"}
    one_worker = scenario(NodeGroup(role="worker", node_type="any", count=1))
    frames = {
        name: table.with_columns(run_id=pl.lit("run"))
        for name, table in torch_operations.operator_tables(operators).items()
    }
    times = pl.DataFrame(
        {"operation": [0, 1], "mean_us": [3.0, 5.0], "median_us": [3.0, 5.0], "sd_us": [0.0, 0.0]}
    )
    scenario_id, canonical = one_worker.scenario_id, one_worker.canonical_json()
    rows = observed_operations(
        {
            "run": pl.DataFrame([run | {"scenario_id": scenario_id}]),
            "scenario": pl.DataFrame([{"scenario_id": scenario_id, "canonical": canonical}]),
            "operation": frames["operation"].cast({"operation": pl.Int64}),
            "operation_shape": frames["operation_shape"].cast({"operation": pl.Int64}),
            "operation_time": times.with_columns(run_id=pl.lit("run")),
            "sample": pl.DataFrame(
                schema={"run_id": pl.String, "metric": pl.String, "value": pl.Float64}
            ),
        }
    )
    assert select_computation(rows).select("type", "count", "mean_us").rows() == [
        ("aten::relu", 2.0, 4.0)
    ]


def test_operators_of_a_recipe_are_those_that_it_adds(alone: None, tmp_path: Path) -> None:
    """Casts of autocast, the optimizer's, and both passes of a step; as they were really run."""
    of = RequestedScenarios(train=(single(node_group("worker", "emu.native.c25", 1)),))
    quick: dict[str, Any] = {"timed_steps": 3, "untimed_steps": 2}
    (result,) = measured("torch_operations", tmp_path, of, "loopback", **quick)
    types = result.tables["operation"]["type"].to_list()
    parameters = 10
    assert types.count("aten::convolution") == 2 * 3
    assert types.count("aten::_to_copy") > 2 * parameters
    # AdamW's: weight decay, both moments, and the step itself.
    assert types.count("aten::lerp_") == types.count("aten::addcdiv_") == parameters
    shapes = result.tables["operation_shape"].join(result.tables["operation"], on="operation")
    casts = shapes.filter(pl.col("type") == "aten::_to_copy")
    assert casts["attributes"].str.contains("torch.bfloat16").any()
    assert result.tables["operation_time"]["steps"].unique().to_list() == [3]
