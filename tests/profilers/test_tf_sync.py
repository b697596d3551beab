"""Synchronous training and its operations for real: tiny jobs on an emulated cluster."""

from pathlib import Path

import polars as pl
import pytest

from profilers.clusters import open_cluster
from profilers.nodes.tf_jobs import StepTime, SyncJob
from profilers.probe import RequestedScenarios
from profilers.tables import operation_time
from profilers.tf_operations import probe as tf_operations
from profilers.tf_sync import probe as tf_sync
from tests.profilers.training import (
    SMALL_CNN_PARAMETERS,
    TF_LINK_MBPS,
    measured,
    samples,
    synchronous,
)


@pytest.mark.cluster
def test_replicas_that_step_together_have_equal_variables() -> None:
    two = synchronous(2)
    with (
        open_cluster("emulated", two.nodes, two.link_mbps) as cluster,
        SyncJob(cluster, two, [1, 2], lambda _: None) as job,
    ):

        def digests() -> list[float]:
            names = [node.name for node in job.nodes]
            return [reply["value"] for reply in job.ask(names, "digest", 60, do="digest")]

        job.run(1, 2)
        first, second = digests()
        assert first != second, "only one of them has stepped"
        job.meet(2)
        met, same = digests()
        assert met == same
        job.run(2, 3)
        first, second = digests()
        assert first == second != met


@pytest.mark.cluster
def test_steps_of_one_and_two_nodes_on_one_start(tmp_path: Path) -> None:
    both = RequestedScenarios(test=(synchronous(1), synchronous(2)))
    results = measured("tf_sync", tmp_path, both, windows=2, window_s=1)
    for workers, result in enumerate(results, start=1):
        sample = result.tables["sample"]
        measured_s = sample.filter(metric="step_time_s")["value"].to_list()
        assert len(measured_s) == 2
        (cpu_s,) = sample.filter(metric="worker_cpu_s_per_step")["value"]
        assert 0 < cpu_s < 1.5 * 0.8 * workers * max(measured_s)
        steps = result.tables["step"]
        counted = steps.drop_nulls("window")
        assert set(counted["worker"]) == set(range(workers))
        assert counted.height == 2 * workers * int(str(result.run.config["window_steps"]))
        assert steps.select("worker", "step").is_duplicated().any() is False
        lasted_s = (counted["end_us"] - counted["start_us"]).mean()
        assert isinstance(lasted_s, float)
        assert sum(measured_s) / 2 == pytest.approx(lasted_s / 1e6, rel=0.5)
    # 0.9 MB to and from the other node at 200 Mb/s: 36 ms at least.
    assert min(measured_s) > SMALL_CNN_PARAMETERS * 4 * 8 / (TF_LINK_MBPS * 1e6)


@pytest.mark.measuring
@pytest.mark.cluster
def test_operations_of_a_device_that_trains_alone(alone: None, tmp_path: Path) -> None:
    of = RequestedScenarios(train=(synchronous(1, cpu_share=0.2),))
    (result,) = measured("tf_operations", tmp_path, of, traced_steps=12, untraced_steps=4)
    frames = result.tables
    assert frames["dnn"]["parameter_count"].to_list() == [SMALL_CNN_PARAMETERS]
    operations = frames["operation"].join(frames["operation_time"], on="operation")
    assert set(operations["resource"]) == {"worker"}
    convolutions = operations.filter(pl.col("type").str.contains("Conv2DBackpropFilter"))
    assert convolutions["steps"].to_list() == [12] * 3
    timed = operations.join(frames["operation_shape"], on="operation")
    known_us, all_us = (float(frame["mean_us"].sum()) for frame in (timed, operations))
    assert known_us > 0.99 * all_us
    values = samples(result)
    assert all_us / 1e6 < values["traced_step_time_s"]
    assert values["unconfined_step_time_s"] < values["step_time_s"]
    assert frames["step"].filter("traced").height == 12
    assert frames["step"].filter(~pl.col("traced")).height == 8
    assert not list(tmp_path.iterdir())


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
    known = {"name": "relu", "inputs": "[[2]]", "outputs": "[[3]]", "attributes": "{}"}
    shapes = pl.DataFrame([{**known, "input_bytes": 8, "output_bytes": 12}])
    joined = tf_operations.operation_shape(operation, shapes)
    assert joined.rows() == [(1, "[[2]]", "[[3]]", "{}")]
    sizes = tf_operations.with_sizes(operation, shapes)
    assert sizes.select("input_bytes", "output_bytes").rows() == [(None, None), (8, 12)]
