"""Operators of PyTorch, timed for real on an emulated node, and what Ceer makes of them."""

from pathlib import Path

import polars as pl
import pytest

from models.ceer.operations import observed_operations, select_computation
from networks.pytorch_graph import pytorch_graph
from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
from profilers.probe import RunContext
from profilers.torch_operations import probe as torch_operations
from tests.profilers.torch_jobs import scenario, single
from warehouse import tables
from warehouse.records import BadInput, NodeGroup


@pytest.mark.cluster
def test_operators_are_those_of_the_graph(alone: None, tmp_path: Path) -> None:
    one_worker = scenario(node_group("worker", "emu.avx2.c40", 1), batch_size=4)
    with open_cluster("emulated", one_worker.nodes, 100) as cluster:
        result = torch_operations.profile(
            cluster,
            one_worker,
            RunContext("test", 1, "profile", tmp_path),
            timed_steps=12,
            untimed_steps=4,
        )
    assert result.run.status == "ok", result.run.error
    frames = result.tables
    for name, table in frames.items():
        assert set(table.columns) <= set(tables.SCHEMAS[name].names)
    graph = pytorch_graph("small_cnn", 4, 16)
    described = (
        frames["operation"].join(frames["operation_shape"], on="operation").sort("operation")
    )
    columns = ["name", "type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes"]
    expected = [tuple(getattr(op, column) for column in columns) for op in graph.operations]
    assert described.select(columns).rows() == expected
    assert frames["dnn"]["parameter_count"].to_list() == [graph.parameter_count]
    assert frames["operation_time"]["steps"].to_list() == [12] * len(expected)
    samples = dict(frames["sample"].select("metric", "value").iter_rows())
    assert samples["unconfined_step_time_s"] < samples["step_time_s"]
    sum_s = float(frames["operation_time"]["mean_us"].sum()) / 1e6
    assert sum_s == pytest.approx(samples["traced_step_time_s"])


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


def test_several_workers_are_refused(tmp_path: Path) -> None:
    group = NodeGroup(role="worker", node_type="any", count=2)
    context = RunContext("test", 1, "profile", tmp_path)
    with (
        open_cluster("loopback", [group], None) as cluster,
        pytest.raises(BadInput, match="a profile needs one worker"),
    ):
        torch_operations.profile(cluster, scenario(group), context, timed_steps=1, untimed_steps=1)


def test_operators_of_a_recipe_are_those_that_it_adds(alone: None, tmp_path: Path) -> None:
    """Casts of autocast, the optimizer's, and both passes of a step; as they were really run."""
    one_device = single(node_group("worker", "emu.native.c25", 1))
    context = RunContext("test", 1, "profile", tmp_path)
    with open_cluster("loopback", one_device.nodes, None) as cluster:
        result = torch_operations.profile(
            cluster, one_device, context, timed_steps=3, untimed_steps=2
        )
    assert result.run.status == "ok", result.run.error
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
