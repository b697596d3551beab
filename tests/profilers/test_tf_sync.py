"""Synchronous training and its operations for real: tiny jobs on an emulated cluster."""

from pathlib import Path

import polars as pl
import pytest

from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
from profilers.nodes.tf_jobs import OperationDescription, Shapes, StepTime, SyncJob
from profilers.operation_tables import operation_time
from profilers.probe import RunContext
from profilers.tf_operations import probe as tf_operations
from profilers.tf_sync import probe as tf_sync
from profilers.windows import Windows
from warehouse import tables
from warehouse.records import BadInput, NodeGroup, Scenario, Strategy, TrainingWorkload

LINK_MBPS = 200
PARAMETERS = (
    (3 * 3 * 3 * 64 + 64) + 2 * (3 * 3 * 64 * 64 + 64) + (4 * 4 * 64 * 320 + 320) + (320 * 10 + 10)
)
"""Of small_cnn at 16 px: three convolutions, a dense layer on a 4 × 4 map, ten logits."""


def scenario(workers: int, batch_size: int = 2, framework: str = "tensorflow") -> Scenario:
    """A small job with this many workers."""
    load = {"dnn": "small_cnn", "image_size": 16, "batch_size": batch_size, "framework": framework}
    return Scenario(
        workload=TrainingWorkload.model_validate(load),
        strategy=Strategy(kind="all_reduce", workers=workers),
        nodes=(node_group("worker", "emu.avx2.c40", workers),),
        link_mbps=LINK_MBPS,
    )


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """A round of a test study."""
    return RunContext("test", 1, "profile", tmp_path)


def fits_its_schema(frames: "dict[str, pl.DataFrame]") -> bool:
    """Tell whether tables have only columns that the history knows."""
    return all(
        set(table.columns) <= set(tables.SCHEMAS[name].names) for name, table in frames.items()
    )


@pytest.mark.cluster
def test_replicas_that_step_together_have_equal_variables(alone: None) -> None:
    two = scenario(2)
    with (
        open_cluster("emulated", two.nodes, LINK_MBPS) as cluster,
        SyncJob(cluster, two, [1, 2], lambda _: None) as job,
    ):
        job.run(1, 2)
        first, second = job.digests(2)
        assert first != second, "only one of them has stepped"
        job.meet(2)
        met, same = job.digests(2)
        assert met == same
        job.run(2, 3)
        first, second = job.digests(2)
        assert first == second != met


@pytest.mark.cluster
def test_steps_of_one_and_two_nodes_on_one_start(alone: None, context: RunContext) -> None:
    with open_cluster("emulated", scenario(2).nodes, LINK_MBPS) as cluster:
        results = list(tf_sync.measure(cluster, [scenario(1), scenario(2)], context, Windows(2, 1)))
    assert [result.run.status for result in results] == ["ok", "ok"]
    for workers, result in enumerate(results, start=1):
        assert fits_its_schema(dict(result.tables))
        samples = result.tables["sample"]
        measured_s = samples.filter(metric="step_time_s")["value"].to_list()
        assert len(measured_s) == 2
        (cpu_s,) = samples.filter(metric="worker_cpu_s_per_step")["value"]
        assert 0 < cpu_s < 1.5 * 0.4 * workers * max(measured_s)
        steps = result.tables["step"]
        counted = steps.drop_nulls("window")
        assert set(counted["worker"]) == set(range(workers))
        assert counted.height == 2 * workers * int(str(result.run.config["window_steps"]))
        assert steps.select("worker", "step").is_duplicated().any() is False
        lasted_s = (counted["end_us"] - counted["start_us"]).mean()
        assert isinstance(lasted_s, float)
        assert sum(measured_s) / 2 == pytest.approx(lasted_s / 1e6, rel=0.5)
    # 0.9 MB to and from the other node at 200 Mb/s: 36 ms at least.
    assert min(measured_s) > PARAMETERS * 4 * 8 / (LINK_MBPS * 1e6)


@pytest.mark.cluster
def test_operations_of_a_device_that_trains_alone(alone: None, context: RunContext) -> None:
    one_worker = scenario(1)
    with open_cluster("emulated", one_worker.nodes, LINK_MBPS) as cluster:
        result = tf_operations.profile(
            cluster, one_worker, context, traced_steps=12, untraced_steps=4
        )
    assert result.run.status == "ok", result.run.error
    frames = result.tables
    assert fits_its_schema(dict(frames))
    assert frames["dnn"]["parameter_count"].to_list() == [PARAMETERS]
    operations = frames["operation"].join(frames["operation_time"], on="operation")
    assert set(operations["resource"]) == {"worker"}
    convolutions = operations.filter(pl.col("type").str.contains("Conv2DBackpropFilter"))
    assert convolutions["steps"].to_list() == [12] * 3
    timed = operations.join(frames["operation_shape"], on="operation")
    known_us, all_us = (float(frame["mean_us"].sum()) for frame in (timed, operations))
    assert known_us > 0.99 * all_us
    samples = dict(frames["sample"].select("metric", "value").iter_rows())
    assert all_us / 1e6 < samples["traced_step_time_s"]
    assert samples["unconfined_step_time_s"] < samples["step_time_s"]
    assert frames["step"].filter("traced").height == 12
    assert frames["step"].filter(~pl.col("traced")).height == 8
    assert not list(context.scratch.iterdir())


def test_a_step_lasts_until_the_last_replica_has_ended_it() -> None:
    early = [StepTime(0, 10_000), StepTime(10_000, 19_000), StepTime(20_000, 29_000)]
    late = [StepTime(0, 11_000), StepTime(11_000, 20_000), StepTime(20_000, 33_000)]
    assert tf_sync.step_s([early, late]) == pytest.approx(0.011)
    assert tf_sync.step_s([early]) == pytest.approx(0.0095)


def test_executions_of_a_step_add_up_and_pieces_join() -> None:
    pieces = [
        pl.DataFrame({"operation": [0, 0, 0], "step": [0, 0, 1], "us": [1, 2, 5]}),
        pl.DataFrame({"operation": [0, 1], "step": [0, 0], "us": [7, 4]}),
    ]
    times = operation_time(pieces)
    columns = ["operation", "steps", "mean_us", "median_us", "min_us"]
    assert times.select(columns).rows() == [(0, 3, 5.0, 5.0, 3.0), (1, 1, 4.0, 4.0, 4.0)]
    assert times["sd_us"].to_list() == [2.0, 0.0]


def test_shapes_are_joined_by_name() -> None:
    operation = pl.DataFrame({"operation": [0, 1], "name": ["placed", "relu"]})
    shapes = Shapes([OperationDescription("relu", "[[2]]", "[[3]]", "{}", 8, 12)], 1)
    joined = tf_operations.operation_shape(operation, shapes)
    assert joined.rows() == [(1, "[[2]]", "[[3]]", "{}")]
    sizes = tf_operations.with_sizes(operation, shapes)
    assert sizes.select("input_bytes", "output_bytes").rows() == [(None, None), (8, 12)]


def test_what_differs_in_more_than_workers_is_refused(context: RunContext) -> None:
    group = NodeGroup(role="worker", node_type="any", count=2)
    with open_cluster("loopback", [group], None) as cluster:
        others = [scenario(1), scenario(2, batch_size=4)]
        with pytest.raises(BadInput, match="differ in more than W"):
            list(tf_sync.measure(cluster, others, context, Windows(1, 1)))
        with pytest.raises(BadInput, match="needs more workers than the cluster's 2"):
            list(tf_sync.measure(cluster, [scenario(3)], context, Windows(1, 1)))
        with pytest.raises(BadInput, match="expected all_reduce with framework tensorflow"):
            other = scenario(1, framework="pytorch")
            list(tf_sync.measure(cluster, [other], context, Windows(1, 1)))
        with pytest.raises(BadInput, match="a profile needs one worker"):
            tf_operations.profile(cluster, scenario(2), context, traced_steps=1, untraced_steps=1)
