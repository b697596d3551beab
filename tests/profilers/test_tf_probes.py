"""The TensorFlow probes for real: tiny jobs on an emulated cluster."""

from pathlib import Path

import polars as pl
import pytest

from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
from profilers.nodes.tf_jobs import AsyncJob, check_async_supported
from profilers.probe import RunContext
from profilers.tf_throughput import probe as tf_throughput
from profilers.tf_trace import probe as tf_trace
from profilers.windows import Windows
from warehouse.records import BadInput, ProbeFailed, Scenario, Strategy, TrainingWorkload

LINK_MBPS = 200
PARAMETER_BYTES = 4 * (
    (3 * 3 * 3 * 64 + 64) + 2 * (3 * 3 * 64 * 64 + 64) + (4 * 4 * 64 * 320 + 320) + (320 * 10 + 10)
)
"""small_cnn at 16 px: three convolutions, a dense layer on a 4 × 4 map, ten logits."""


def scenario(workers: int, **strategy: object) -> Scenario:
    """A small job with this many workers."""
    return Scenario(
        workload=TrainingWorkload(dnn="small_cnn", image_size=16, batch_size=2),
        strategy=Strategy.model_validate({"workers": workers, **strategy}),
        nodes=(
            node_group("worker", "emu.avx2.c40", workers),
            node_group("server", "emu.server", 1),
        ),
        link_mbps=LINK_MBPS,
    )


def context(folder: Path, purpose: str = "profile") -> RunContext:
    """A round of a test study."""
    return RunContext("test", 1, "profile" if purpose == "profile" else "measurement", folder)


@pytest.mark.cluster
def test_a_profile_holds_every_parameter_once_in_each_direction(
    alone: None, tmp_path: Path
) -> None:
    one_worker = scenario(1)
    with open_cluster("emulated", one_worker.nodes, LINK_MBPS) as cluster:
        result = tf_trace.profile(
            cluster, one_worker, context(tmp_path), traced_steps=4, untraced_steps=4
        )
    assert result.run.status == "ok", result.run.error
    operations, timing = result.tables["operation"], result.tables["timing"]
    sizes = dict(operations.group_by("resource").agg(pl.col("size_bytes").sum()).rows())
    assert sizes["downlink"] == PARAMETER_BYTES
    # The learning rate, one number, travels with the gradients.
    assert sizes["uplink"] == PARAMETER_BYTES + 4
    assert timing["step"].n_unique() == 4
    assert set(result.tables["edge"]["target"]) <= set(operations["operation"])
    steps = result.tables["step"]
    assert steps.filter("traced").height == steps.filter(~pl.col("traced")).height == 4
    ends = timing.with_columns(end=pl.col("start_us") + pl.col("duration_us"))
    lengths = steps.filter("traced").select("step", length=pl.col("end_us") - pl.col("start_us"))
    inside = ends.join(lengths.cast({"step": pl.Int64}), on="step")
    assert inside.filter(pl.col("end") > pl.col("length")).is_empty()
    samples = dict(result.tables["sample"].select("metric", "value").iter_rows())
    assert 0 < samples["server_cpu_s_per_step"]
    assert 0 < samples["worker_cpu_s_per_step"] < samples["step_time_s"]
    assert (tmp_path / "run_metadata.tar.gz").exists()


@pytest.mark.cluster
def test_a_capture_finds_the_packets_of_transfers(alone: None, tmp_path: Path) -> None:
    one_worker = scenario(1)
    with open_cluster("emulated", one_worker.nodes, LINK_MBPS) as cluster:
        result = tf_trace.profile(
            cluster, one_worker, context(tmp_path), traced_steps=4, untraced_steps=4, capture=True
        )
        assert "tcpdump" not in cluster.run(cluster.nodes[0], ["ps", "-eo", "args"])
    assert result.run.status == "ok", result.run.error
    (share,) = result.tables["sample"].filter(metric="captured_fraction")["value"]
    assert share >= 0.95
    streams = result.tables["stream"].drop_nulls(["step", "operation"])
    sizes = result.tables["operation"].select("operation", tensor_bytes="size_bytes")
    extra = streams.join(sizes, on="operation").select(
        pl.col("size_bytes") - pl.col("tensor_bytes")
    )
    assert extra.to_series().is_between(0, 200).all()
    starts = result.tables["step"].filter("traced").select("step", step_us="start_us")
    recorded = result.tables["timing"].cast({"step": pl.Int32, "operation": pl.Int32})
    timed = streams.cast({"step": pl.Int64}).join(starts, on="step").cast({"step": pl.Int32})
    both = timed.join(recorded, on=["step", "operation"])
    end_us = pl.col("step_us") + pl.col("start_us") + pl.col("duration_us")
    assert both.filter(pl.col("last_us") > end_us).is_empty()
    windows = result.tables["http2_frame"].filter(type="SETTINGS").drop_nulls("value")
    assert set(windows["sender"]) == {"worker", "server"}
    assert {"control.pcap.gz", "steps.pcap.gz"} <= set(result.artefacts)
    assert not list(tmp_path.glob("*.pcap"))


@pytest.mark.cluster
def test_throughput_of_one_and_two_workers_on_one_start(alone: None, tmp_path: Path) -> None:
    with open_cluster("emulated", scenario(2).nodes, LINK_MBPS) as cluster:
        results = list(
            tf_throughput.measure(
                cluster,
                [scenario(1), scenario(2)],
                context(tmp_path, "measurement"),
                Windows(2, 2),
            )
        )
    assert [result.run.status for result in results] == ["ok", "ok"]
    for workers, result in enumerate(results, start=1):
        samples = result.tables["sample"]
        rates = samples.filter(metric="throughput_steps_per_s")["value"].to_list()
        assert len(rates) == 2
        (worker_s,) = samples.filter(metric="worker_cpu_s_per_step")["value"]
        # What a worker may use of a core, and what it used between the windows' end and halting.
        assert 0 < worker_s < 1.5 * 0.4 * workers / min(rates)
        steps = result.tables["step"]
        assert set(steps["worker"]) == set(range(workers))
        measured = steps.drop_nulls("window")
        assert 0 < measured.height < steps.height
        counted = measured.height / (2 * 2)
        assert sum(rates) / 2 == pytest.approx(counted, rel=0.3)


@pytest.mark.cluster
def test_a_worker_that_dies_is_told_with_its_words(alone: None) -> None:
    one_worker = scenario(1)
    with open_cluster("emulated", one_worker.nodes, LINK_MBPS) as cluster:
        with AsyncJob(cluster, one_worker, lambda _: None) as job:
            cluster.run(
                job.workers[0],
                ["pkill", "-KILL", "-f", r'tf_throughput\.program.*"role": "worker"'],
            )
            with pytest.raises(ProbeFailed, match=r"worker0 of small_cnn .* ended early \(killed"):
                job.run(job.workers[0], 1)


def test_what_stock_tensorflow_cannot_do_is_refused() -> None:
    with pytest.raises(BadInput, match="flow_control: true"):
        check_async_supported(scenario(1, flow_control=False))
    check_async_supported(scenario(3, order="tic"))
