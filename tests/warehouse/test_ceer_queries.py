"""The queries that feed Ceer, beside the same in frames."""

from typing import TYPE_CHECKING

import polars as pl
import pytest

from models.ceer.operations import OBSERVED, observed_operations
from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload

if TYPE_CHECKING:
    from tests.warehouse.conftest import Built, Maker

TABLES = {
    "runs": "run",
    "scenarios": "scenario",
    "operations": "operation",
    "shapes": "operation_shape",
    "times": "operation_time",
    "samples": "sample",
}


def profile(
    make: "Maker", run_id: str, order: list[int], us: float, batch: int = 8, slower: float = 1
) -> None:
    """Land a run of two equal products, a third one, a ReLU without shapes and a transfer.

    Operations were at full speed, steps so much slower.
    """
    kinds = ["MatMul", "MatMul", "MatMul", "Relu", "_Recv"]
    shapes = ["[[4,4]]", "[[4,4]]", "[[9,9]]"]
    operations = pl.DataFrame(
        {
            "operation": order,
            "name": [f"{kind}{i}" for i, kind in enumerate(kinds)],
            "type": kinds,
            "resource": ["worker"] * 4 + ["downlink"],
            "size_bytes": [None] * 4 + [4000],
            "input_bytes": [64, 64, 324, 128, None],
        }
    )
    statistics = {
        name: [us, 2 * us, 3 * us, 4 * us, 5 * us]
        for name in ("mean_us", "median_us", "sd_us", "min_us", "p95_us")
    }
    times = pl.DataFrame({"operation": order, "steps": [100] * 5, **statistics})
    known = pl.DataFrame(
        {"operation": order[:3], "inputs": shapes, "outputs": shapes, "attributes": ["{}"] * 3}
    )
    values = {"step_time_s": us / 1000}
    if slower != 1:
        values["unconfined_step_time_s"] = us / 1000 / slower
    sample = pl.DataFrame({"metric": list(values), "value": list(values.values()), "unit": "s"})
    tables = {
        "operation": operations,
        "operation_time": times,
        "operation_shape": known,
        "sample": sample.with_columns(window=pl.lit(None, pl.Int16)),
    }
    scenario = make.scenario(1, batch=batch)
    make.land(make.run(run_id, scenario, "profile"), scenario, tables)


def tell(make: "Maker") -> None:
    profile(make, "a", [0, 1, 2, 3, 4], 10)
    profile(make, "b", [0, 1, 2, 3, 4], 20)
    profile(make, "c", [4, 2, 0, 1, 3], 60)
    profile(make, "d", [0, 1, 2, 3, 4], 100, batch=16)
    profile(make, "e", [0, 1, 2, 3, 4], 100, batch=32, slower=2.5)
    judged = make.scenario(1)
    make.land(make.run("hidden", judged, "measurement", minute=5), judged)
    make.warehouse.load()


@pytest.fixture
def told(built: "Built", fresh: "Maker") -> "Maker":
    """Return a maker of three runs of a step, one of them in another order, and one of another."""
    return built(tell, fresh.home)


def test_equal_operations_of_equal_steps_are_one_row(told: "Maker") -> None:
    operations = told.warehouse.query("ceer_operations").filter(pl.col("batch_size") == 8)
    columns = ["type", "input_bytes", "inputs", "count", "mean_us", "runs"]
    # The mean of 10, 20 and 60 is 30; products take once and twice, three times as long.
    assert operations.select(columns).rows() == [
        ("MatMul", 64, "[[4,4]]", 2.0, pytest.approx(45), 3),
        ("MatMul", 324, "[[9,9]]", 1.0, pytest.approx(90), 3),
        ("Relu", 128, None, 1.0, pytest.approx(120), 3),
    ]


def test_sql_and_frames_observe_the_same(told: "Maker") -> None:
    by_sql = told.warehouse.query("ceer_operations")
    tables = {name: told.warehouse.visible(table) for name, table in TABLES.items()}
    by_frames = observed_operations(**tables)
    same = by_sql.select([pl.col(name).cast(kind) for name, kind in OBSERVED.items()])
    assert same.height == by_frames.height == 9
    sql_rows, frame_rows = (frame.sort(list(OBSERVED)).rows() for frame in (same, by_frames))
    for row, other in zip(sql_rows, frame_rows, strict=True):
        assert row == pytest.approx(other)


def test_operations_at_full_speed_count_as_at_the_share(told: "Maker") -> None:
    times = {
        batch: told.warehouse.query("ceer_operations").filter(batch_size=batch)["mean_us"]
        for batch in (16, 32)
    }
    assert times[32].to_list() == pytest.approx([2.5 * us for us in times[16]])


def all_reduce(make: "Maker") -> None:
    """Land steps of one and two devices, without parameter servers, and the parameters."""
    for workers in (1, 2):
        node = NodeGroup(role="worker", node_type="emu", count=workers)
        load = TrainingWorkload(dnn="cnn", image_size=32, batch_size=8)
        strategy = Strategy(kind="all_reduce", workers=workers)
        scenario = Scenario(workload=load, strategy=strategy, nodes=(node,), link_mbps=100)
        sample = pl.DataFrame({"metric": ["step_time_s"], "unit": ["s"], "value": [1.0 * workers]})
        tables = {"sample": sample.with_columns(window=pl.lit(None, pl.Int16))}
        if workers == 1:
            counts = {"image_size": [24, 32], "parameter_count": [70, 80]}
            tables["dnn"] = pl.DataFrame(
                {"dnn": "cnn", "framework": "tensorflow", "batch_size": 8, **counts}
            )
        make.land(make.run(f"w{workers}", scenario, "profile"), scenario, tables)
    make.warehouse.load()


def test_steps_without_servers_have_the_parameters_of_their_images(
    built: "Built", fresh: "Maker"
) -> None:
    steps = built(all_reduce, fresh.home).warehouse.query("ceer_steps")
    columns = ["strategy", "devices", "link_mbps", "parameter_count", "step_s"]
    assert steps.select(columns).rows() == [
        ("all_reduce", 1, None, 80, 1.0),
        ("all_reduce", 2, 100.0, 80, 2.0),
    ]


def test_steps_are_of_profiles_and_have_parameters(told: "Maker") -> None:
    steps = told.warehouse.query("ceer_steps")
    assert steps["run_id"].to_list() == ["a", "b", "c", "d", "e"]
    assert steps["step_s"].to_list() == [0.01, 0.02, 0.06, 0.1, 0.1]
    # 4000 bytes are received.
    assert steps["parameter_count"].unique().to_list() == [1000]
    assert steps.select("devices", "link_mbps", "node_type").row(0) == (1, 150.0, "emu.avx2.1c")
