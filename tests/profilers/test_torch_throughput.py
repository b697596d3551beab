"""Synchronous training: which iterations count, what is refused, and real DDP on two nodes."""

import subprocess
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from profilers.clusters import Cluster, netns, open_cluster
from profilers.clusters.node_types import node_group
from profilers.nodes.torch_training import shard
from profilers.probe import ProbeResult, RequestedScenarios, RunContext, measure_planned_runs
from profilers.torch_throughput import probe as torch_throughput
from profilers.torch_throughput.probe import PROBE
from profilers.windows import Goal, Piece, step_rows
from studies.planned_runs import group_by_start
from tests.profilers.torch_jobs import single
from warehouse import tables
from warehouse.records import BadInput, NodeGroup, Scenario, Strategy, TrainingWorkload

LINK_MBPS = 200
QUICK = Goal(iterations=20)


def scenario(*groups: NodeGroup, batch_size: int = 2, **workload: object) -> Scenario:
    """All nodes of the groups train small_cnn together."""
    fields = {"dnn": "small_cnn", "framework": "pytorch", "image_size": 16, **workload}
    return Scenario(
        workload=TrainingWorkload.model_validate({**fields, "batch_size": batch_size}),
        strategy=Strategy(kind="all_reduce", workers=sum(group.count for group in groups)),
        nodes=groups,
        link_mbps=LINK_MBPS,
    )


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[str]]":
    """Return the programs that clusters start."""
    programs: list[subprocess.Popen[str]] = []
    popen = Cluster.popen

    def remember(*args: Any, **options: Any) -> "subprocess.Popen[str]":
        programs.append(popen(*args, **options))
        return programs[-1]

    monkeypatch.setattr(Cluster, "popen", remember)
    return programs


def context(folder: Path) -> RunContext:
    """A round of a test study."""
    return RunContext("test", 1, "measurement", folder)


def test_an_iteration_takes_the_mean_over_ranks_without_the_first() -> None:
    piece = Piece(((0, 9_000_000, 10_000_000, 12_000_000), (0, 9_000_000, 11_000_000, 13_000_000)))
    assert piece.steps_s == [1.5, 2.0]


def test_a_goal_is_reached_by_count_by_precision_or_by_time() -> None:
    rough, even = [1.0, 2.0] * 10, [1.0] * 20
    goal = Goal(iterations=100, interval=0.02, most_s=60)
    assert not goal.reached(even[:19], 99.0)
    assert not goal.reached(rough, 59.0)
    assert goal.reached(rough, 60.0)
    assert goal.reached(even, 0.0)
    assert goal.reached(rough * 5, 0.0)
    assert not Goal(iterations=100).reached(even * 4, 1e9)


def test_steps_keep_what_does_not_count() -> None:
    rows = step_rows(Piece(((0, 1, 2),)), [Piece(((2, 4, 6, 8),)), Piece(((8, 9, 10, 11),))])
    assert rows["window"].to_list() == [None, None, None, 0, 0, None, 1, 1]
    assert rows["step"].to_list() == list(range(8))
    assert rows["start_us"].to_list() == [0, 1, 2, 4, 6, 8, 9, 10]


def test_what_cannot_be_measured_together_is_refused(tmp_path: Path) -> None:
    group = NodeGroup(role="worker", node_type="any", count=2)
    two = scenario(group)
    other = two.model_copy(
        update={"workload": two.workload.model_copy(update={"dnn": "squeezenet"})}
    )
    mixed = scenario(group, NodeGroup(role="worker", node_type="fast", count=1))
    busy = two.model_copy(update={"cross_traffic": 0.1})
    cases = {
        "expected scenarios, found none": [],
        "expected the same network": [two, other],
        "needs 1 more node\\(s\\) of type 'fast', the cluster has 0": [mixed],
        "found all_reduce with tensorflow": [scenario(group, framework="tensorflow")],
        "no cross traffic": [busy],
    }
    with open_cluster("loopback", [group], None) as cluster:
        for message, scenarios in cases.items():
            with pytest.raises(BadInput, match=message):
                list(torch_throughput.measure(cluster, scenarios, context(tmp_path), goal=QUICK))


def check(result: ProbeResult, ranks: int) -> None:
    """Hold a result against the tables it lands in, and its parts against each other."""
    assert result.run.status == "ok", result.run.error
    run_id = pl.lit("run").alias("run_id")
    for name, table in result.tables.items():
        tables.conform(name, table.with_columns(run_id).to_arrow(), name)
    windows = result.tables["sample"].filter(metric="step_time_s")
    assert windows["window"].to_list() == [0, 1]
    steps = result.tables["step"].with_columns(s=(pl.col("end_us") - pl.col("start_us")) / 1e6)
    mean = steps.group_by("window").agg(pl.col("s").mean()).drop_nulls().sort("window")
    assert windows["value"].to_list() == pytest.approx(mean["s"].to_list())
    assert steps["worker"].n_unique() == ranks == result.tables["cluster_node"].height
    assert result.run.config["library"] == "gloo"


@pytest.mark.cluster
def test_two_world_sizes_batches_and_a_mix_on_one_start(alone: None, tmp_path: Path) -> None:
    fast, slow = (node_group("worker", f"emu.{isa}.c40", 1) for isa in ("avx2", "sse41"))
    scenarios = [
        scenario(fast),
        scenario(fast, slow),
        scenario(fast, slow.model_copy(update={"batch_size": 1}), batch_size=4),
    ]
    with open_cluster("emulated", [fast, slow], LINK_MBPS) as cluster:
        results = list(torch_throughput.measure(cluster, scenarios, context(tmp_path), goal=QUICK))
    assert [result.scenario for result in results] == scenarios
    for result, ranks in zip(results, (1, 2, 2), strict=True):
        check(result, ranks)
    single, pair, _ = (
        result.tables["sample"].filter(metric="step_time_s")["value"].mean() for result in results
    )
    # 1.7 MB of gradients cross a link of 25 MB/s.
    assert isinstance(single, float)
    assert isinstance(pair, float)
    assert pair > single


@pytest.mark.cluster
def test_sharded_training_of_two_world_sizes_on_one_start(alone: None, tmp_path: Path) -> None:
    pair = node_group("worker", "emu.avx2.c40", 2)
    scenarios = [
        scenario(group, precision="bfloat16", optimizer="adamw", accumulate=2).model_copy(
            update={"strategy": Strategy(kind="sharded", workers=group.count)}
        )
        for group in (pair.one, pair)
    ]
    with open_cluster("emulated", [pair], LINK_MBPS) as cluster:
        results = list(torch_throughput.measure(cluster, scenarios, context(tmp_path), goal=QUICK))
    assert [result.scenario for result in results] == scenarios
    for result, ranks in zip(results, (1, 2), strict=True):
        check(result, ranks)


def test_ranks_have_parts_of_each_unit() -> None:
    """A list's elements are gathered one by one; what is in no list belongs to the network."""
    import torch
    from torch import distributed, nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule
    from torch.testing._internal.distributed.fake_pg import FakeStore

    network = nn.Module()
    network.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3))
    network.head = nn.Linear(8, 2)
    distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        shard(network, init_device_mesh("cpu", (2,)), "bfloat16")
        units = [module for module in network.modules() if isinstance(module, FSDPModule)]
        assert [type(unit).__bases__[-1] for unit in units] == [nn.Module, *[nn.Sequential] * 3]
        local: set[Any] = {cast(Any, each).to_local().shape for each in network.parameters()}
        assert local == {(4, 8), (4,), (1, 8), (1,)}
        assert {each.dtype for each in network.parameters()} == {torch.float32}
    finally:
        distributed.destroy_process_group()


@pytest.mark.cluster
def test_a_rank_that_dies_fails_what_is_left_and_nothing_stays(
    alone: None, tmp_path: Path, started: "list[subprocess.Popen[str]]"
) -> None:
    pair = node_group("worker", "emu.avx2.c40", 2)
    scenarios = [scenario(pair, batch_size=size) for size in (1, 2, 4)]
    before = netns.namespaces()

    def die(message: str) -> None:
        if " b2," in message:
            started[-1].kill()

    (*needs,) = PROBE.needs(
        RequestedScenarios(test=tuple(scenarios)), torch_throughput.Settings(iterations=20)
    )
    (start,) = group_by_start(needs)
    with open_cluster("emulated", [pair], LINK_MBPS) as cluster:
        (_, first), *rest = measure_planned_runs(PROBE, cluster, start, context(tmp_path), die)
    assert first.run.status == "ok"
    assert [need.scenario for need, _ in rest] == scenarios[1:]
    failed = [result for _, result in rest]
    assert [result.scenario for result in failed] == scenarios[1:]
    assert all(result.run.status == "failed" and not result.tables for result in failed)
    assert all("ended early" in str(result.run.error) for result in failed)
    assert all(program.poll() is not None for program in started)
    assert netns.namespaces() == before


@pytest.mark.cluster
def test_who_stops_listening_ends_the_programs(
    alone: None, tmp_path: Path, started: "list[subprocess.Popen[str]]"
) -> None:
    pair = node_group("worker", "emu.avx2.c40", 2)
    scenarios = [scenario(pair, batch_size=size) for size in (1, 2)]
    with open_cluster("emulated", [pair], LINK_MBPS) as cluster:
        results = torch_throughput.measure(cluster, scenarios, context(tmp_path), goal=QUICK)
        assert next(results).run.status == "ok"
        results.close()  # type: ignore[attr-defined]
        assert len(started) == 2
        assert all(program.poll() is not None for program in started)


def test_one_device_trains_alone_by_its_recipe(alone: None, tmp_path: Path) -> None:
    """Really trained, without a replica; and as the only replica of an all-reduce."""
    group = node_group("worker", "emu.native.c25", 1)
    of_alone = single(group)
    replica = of_alone.model_copy(update={"strategy": Strategy(kind="all_reduce", workers=1)})
    goal = Goal(iterations=20)
    with open_cluster("loopback", [group], None) as cluster:
        for training, library in ((of_alone, None), (replica, "gloo")):
            measured = torch_throughput.measure(cluster, [training], context(tmp_path), goal=goal)
            (result,) = measured
            assert result.run.status == "ok", result.run.error
            assert result.run.scenario_id == training.scenario_id
            assert result.run.config["library"] == library
            windows = result.tables["sample"].filter(metric="step_time_s")
            assert min(windows["value"].to_list()) > 0
        with pytest.raises(BadInput, match="expected the same network, trained in the same way"):
            list(
                torch_throughput.measure(cluster, [of_alone, replica], context(tmp_path), goal=goal)
            )
        half = single(group, precision="float16")
        with pytest.raises(BadInput, match="float16 is of GPUs, and emu"):
            list(torch_throughput.measure(cluster, [half], context(tmp_path), goal=goal))
