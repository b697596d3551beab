"""Own logs of collectives and reports of links, and the forecasts that rest on them."""

import json
from collections.abc import Mapping

import polars as pl
import pytest

from models.gpu_step import scenario_steps
from models.gpu_step.system import GPU_STEP, GpuStepModel
from models.gpu_step.timed_collectives import TCP_BPS, rated, read_clusters, tcp_bps
from tests.models.gpu_step.public import made_up_steps, public_tables, scenario
from warehouse.records import NodeGroup, Scenario, Strategy
from warehouse.tables import SCHEMAS

SIZES = (2**22, 2**24, 2**26, 2**28, 2**30)


def tables(**runs: tuple[str, str, pl.DataFrame]) -> Mapping[str, pl.DataFrame]:
    """Return tables of runs: probe, node type, and rows of its table."""
    of_runs = [
        (run_id, probe, json.dumps({"worker": node_type, "nodes": 2}))
        for run_id, (probe, node_type, _) in runs.items()
    ]
    frames = {name: [pl.DataFrame(SCHEMAS[name].empty_table())] for name in ("allreduce", "link")}
    for run_id, (probe, _, rows) in runs.items():
        name = "allreduce" if probe == "nccl-tests" else "link"
        frames[name].append(rows.with_columns(run_id=pl.lit(run_id)))
    return {
        "run": pl.DataFrame(of_runs, ["run_id", "probe", "config"], orient="row"),
        "source": pl.DataFrame({"run_id": list(runs), "source": [f"your {run}" for run in runs]}),
    } | {name: pl.concat(each, how="diagonal_relaxed") for name, each in frames.items()}


def collectives(seconds: float) -> pl.DataFrame:
    """Return all-reduces of sixteen GPUs: so many seconds for each GiB, and a tenth for none."""
    times = [seconds * (size / 2**30 + 0.1) for size in SIZES]
    return pl.DataFrame({"size_bytes": SIZES, "seconds": times}).with_columns(world_size=16)


def links(*Bps: float) -> pl.DataFrame:
    """Return a trial of so many flows."""
    flows = {"flow": range(len(Bps)), "bandwidth_Bps": Bps}
    return pl.DataFrame(flows).with_columns(direction=pl.lit("uplink"), flows=len(Bps), trial=0)


def test_clusters_are_read_with_the_links_of_their_node_types() -> None:
    read = read_clusters(
        tables(
            log=("nccl-tests", "p5.48xlarge", collectives(5e-3)),
            slow=("iperf3", "p3.8xlarge", links(0.5e9, 0.25e9)),
            slower=("iperf3", "p3.8xlarge", links(0.1e9)),
            stalled=("iperf3", "p3.8xlarge", links(1e9)),
            efa=("iperf3", "p5.48xlarge", links(2e9)),
        )
    )
    assert set(read.timed["cluster"]) == {"p5.48xlarge"}
    assert read.timed.select("devices", "nodes", "network_bps").unique().row(0) == (8, 2, 400e9)
    assert read.timed["seconds"].to_list()[-1] == pytest.approx(5.5e-3)
    # What flows have together, in the middle one of runs; NCCL does not use TCP where there is EFA.
    assert read.network_bps == {"p3.8xlarge": 0.75e9}
    assert read.sources == {
        "p5.48xlarge": ["your log"],
        "p3.8xlarge": [f"your {run}" for run in ("slow", "slower", "stalled")],
    }


def test_a_network_is_as_fast_as_it_was_measured_else_as_a_flow_of_ec2() -> None:
    rated_bps = rated("p3.8xlarge", 4, 2).network_bps
    assert tcp_bps("p3.8xlarge", rated_bps, 2, {}) == TCP_BPS
    # With two neighbours it has two connections, and no more.
    assert tcp_bps("p3.8xlarge", rated_bps, 8, {}) == 2 * TCP_BPS
    assert tcp_bps("p3.8xlarge", rated_bps, 2, {"p3.8xlarge": 0.75e9}) == 0.75e9
    assert tcp_bps("p3.8xlarge", 1e8, 2, {"p3.8xlarge": 0.75e9}) == 1e8
    assert tcp_bps("p5.48xlarge", 400e9, 2, {"p5.48xlarge": 0.75e9}) == 400e9


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)


@pytest.fixture(scope="module")
def fitted() -> GpuStepModel:
    own = tables(
        log=("nccl-tests", "p5.48xlarge", collectives(20e-3)),
        slow=("iperf3", "p3.8xlarge", links(1e8)),
    )
    both = {
        name: pl.concat([rows, *([own[name]] if name in own else [])], how="diagonal_relaxed")
        for name, rows in public_tables().items()
    }
    model = GPU_STEP.load(GPU_STEP.fit(both).parameters_json(), {})
    assert isinstance(model, GpuStepModel)
    return model


def nodes(node_type: str, gpus: int, count: int = 2) -> Scenario:
    strategy = Strategy(kind="all_reduce", workers=count, devices_per_node=gpus)
    groups = (NodeGroup(role="worker", node_type=node_type, count=count),)
    return scenario(node_type).model_copy(update={"strategy": strategy, "nodes": groups})


def test_a_forecast_of_several_nodes_rests_on_the_log_of_their_type(fitted: GpuStepModel) -> None:
    plain = GPU_STEP.fit(public_tables())
    assert isinstance(plain, GpuStepModel)
    for case, source in (
        (nodes("p5.48xlarge", 8), "your log"),
        (nodes("p5.48xlarge", 8, 4), "your log"),
        (nodes("p3.8xlarge", 4), "your slow"),
    ):
        before, after = plain.detail(case), fitted.detail(case)
        assert (before["own_clusters"], after["own_clusters"]) == ([], [source])
        assert after["exchange_s"] > 1.5 * before["exchange_s"]
    alone = scenario("p5.48xlarge")
    assert fitted.detail(alone)["own_clusters"] == []
    assert fitted.predict([alone]).equals(plain.predict([alone]))
    other = nodes("p4d.24xlarge", 8)
    assert fitted.detail(other)["own_clusters"] == []


def test_exchanges_that_nobody_timed_make_an_interval_wide(fitted: GpuStepModel) -> None:
    forecaster = fitted.steps
    known, unknown = (
        forecaster.slower(case).step_s / forecaster.step(case).step_s
        for case in (nodes("p5.48xlarge", 8), nodes("p4d.24xlarge", 8))
    )
    assert 1.0 < known < unknown
