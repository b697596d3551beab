"""The TensorFlow probes for real: tiny jobs on an emulated cluster."""

from pathlib import Path

import polars as pl
import pytest

from profilers.commands import run
from profilers.probe import ProbeResult, RequestedScenarios
from profilers.steady.hostlock import host_lock
from tests.profilers.training import (
    SHARE_BESIDE_SERVER,
    SMALL_CNN_PARAMETERS,
    measured,
    samples,
    with_server,
)

ONE = RequestedScenarios(own=(with_server(1),))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProbeResult, Path]:
    """Return a profile with captured packets, and the folder that it was made in."""
    folder = tmp_path_factory.mktemp("traced")
    with host_lock():
        (result,) = measured(
            "tf_trace", folder, ONE, traced_steps=4, untraced_steps=4, capture=True
        )
    return result, folder


@pytest.mark.measuring
@pytest.mark.cluster
def test_a_profile_holds_every_parameter_once_in_each_direction(
    traced: tuple[ProbeResult, Path],
) -> None:
    result, folder = traced
    operations, timing = result.tables["operation"], result.tables["timing"]
    sizes = dict(operations.group_by("resource").agg(pl.col("size_bytes").sum()).rows())
    assert sizes["downlink"] == 4 * SMALL_CNN_PARAMETERS
    # The learning rate, one number, travels with the gradients.
    assert sizes["uplink"] == 4 * SMALL_CNN_PARAMETERS + 4
    assert timing["step"].n_unique() == 4
    assert set(result.tables["edge"]["target"]) <= set(operations["operation"])
    steps = result.tables["step"]
    assert steps.filter("traced").height == steps.filter(~pl.col("traced")).height == 4
    ends = timing.with_columns(end=pl.col("start_us") + pl.col("duration_us"))
    lengths = steps.filter("traced").select("step", length=pl.col("end_us") - pl.col("start_us"))
    inside = ends.join(lengths.cast({"step": pl.Int64}), on="step")
    assert inside.filter(pl.col("end") > pl.col("length")).is_empty()
    values = samples(result)
    assert 0 < values["server_cpu_s_per_step"]
    assert 0 < values["worker_cpu_s_per_step"] < values["step_time_s"]
    assert (folder / "run_metadata.tar.gz").exists()


@pytest.mark.measuring
@pytest.mark.cluster
def test_a_capture_finds_the_packets_of_transfers(traced: tuple[ProbeResult, Path]) -> None:
    result, folder = traced
    assert "tcpdump" not in run(["ps", "-eo", "comm"])
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
    assert not list(folder.glob("*.pcap"))


@pytest.mark.cluster
def test_throughput_of_one_and_two_workers_on_one_start(tmp_path: Path) -> None:
    both = RequestedScenarios(test=(with_server(1), with_server(2)))
    results = measured("tf_throughput", tmp_path, both, windows=2, window_s=2)
    for workers, result in enumerate(results, start=1):
        sample = result.tables["sample"]
        rates = sample.filter(metric="throughput_steps_per_s")["value"].to_list()
        assert len(rates) == 2
        (worker_s,) = sample.filter(metric="worker_cpu_s_per_step")["value"]
        # What a worker may use of a core, and what it used between the windows' end and halting.
        assert 0 < worker_s < 1.5 * SHARE_BESIDE_SERVER * workers / min(rates)
        steps = result.tables["step"]
        assert set(steps["worker"]) == set(range(workers))
        inside = steps.drop_nulls("window")
        assert 0 < inside.height < steps.height
        counted = inside.height / (2 * 2)
        assert sum(rates) / 2 == pytest.approx(counted, rel=0.5)
