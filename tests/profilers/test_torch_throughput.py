"""Synchronous training: which iterations count, and real DDP on two nodes."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from profilers.clusters import Cluster, open_cluster
from profilers.nodes.torch_network import TrainedNetwork
from profilers.nodes.torch_training import shard
from profilers.probe import ProbeResult, RequestedScenarios, Session, measure_planned_runs
from profilers.tables import step_table
from profilers.torch_throughput.probe import PROBE, Settings, mean_steps_s, step_rows
from tests.leftovers import left_behind
from tests.profilers.training import measured, scenario, workers_of
from warehouse.records import BadInput, Strategy, TrainingWorkload


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


def test_an_iteration_takes_the_mean_over_ranks_without_the_first() -> None:
    piece = [(0, 9_000_000, 10_000_000, 12_000_000), (0, 9_000_000, 11_000_000, 13_000_000)]
    assert mean_steps_s(piece) == [1.5, 2.0]


def test_a_goal_is_reached_by_count_by_precision_or_by_time() -> None:
    rough, even = [1.0, 2.0] * 10, [1.0] * 20
    goal = Settings(iterations=100, interval=0.02, most_s=60)
    assert not goal.are_reached(even[:19], 99.0)
    assert not goal.are_reached(rough, 59.0)
    assert goal.are_reached(rough, 60.0)
    assert goal.are_reached(even, 0.0)
    assert goal.are_reached(rough * 5, 0.0)
    assert not Settings(iterations=100).are_reached(even * 4, 1e9)


def test_steps_keep_what_does_not_count() -> None:
    rows = step_table(step_rows([(0, 1, 2)], [[(2, 4, 6, 8)], [(8, 9, 10, 11)]]))
    assert rows["window"].to_list() == [None, None, None, 0, 0, None, 1, 1]
    assert rows["step"].to_list() == list(range(8))
    assert rows["start_us"].to_list() == [0, 1, 2, 4, 6, 8, 9, 10]


def test_what_sharded_training_cannot_be_measured_is_refused() -> None:
    pair = scenario(workers_of(2), memory_format="channels_last")
    sharded = pair.model_copy(update={"strategy": Strategy(kind="sharded", workers=2)})
    asked = RequestedScenarios(test=(sharded,))
    with pytest.raises(BadInput, match="in float32 and bfloat16 of contiguous tensors"):
        PROBE.check(asked, list(PROBE.needs(asked, Settings())), "emulated")


def check(result: ProbeResult, ranks: int) -> None:
    """Hold the parts of a result against each other."""
    windows = result.tables["sample"].filter(metric="step_time_s")
    assert windows["window"].to_list() == [0, 1]
    steps = result.tables["step"].with_columns(s=(pl.col("end_us") - pl.col("start_us")) / 1e6)
    mean = steps.group_by("window").agg(pl.col("s").mean()).drop_nulls().sort("window")
    assert windows["value"].to_list() == pytest.approx(mean["s"].to_list())
    assert steps["worker"].n_unique() == ranks == result.tables["cluster_node"].height
    assert result.run.config["library"] == "gloo"


@pytest.mark.cluster
def test_two_world_sizes_and_batches_of_two_types_on_one_start(tmp_path: Path) -> None:
    fast, slow = (workers_of(1, isa) for isa in ("avx2", "sse41"))
    mixed = slow.model_copy(update={"batch_size": 1})
    groups = ((fast, slow, 1), (fast, mixed, 4))
    test = tuple(scenario(*pair, batch_size=size) for *pair, size in groups)
    results = measured("torch_throughput", tmp_path, RequestedScenarios(test=test), iterations=20)
    assert [result.scenario for result in results] == list(test)
    for result in results:
        check(result, 2)


@pytest.mark.cluster
def test_sharded_training_of_two_world_sizes_on_one_start(tmp_path: Path) -> None:
    pair = workers_of(2)
    recipe: dict[str, Any] = {"precision": "bfloat16", "optimizer": "adamw", "accumulate": 2}
    one, two = (
        scenario(group, batch_size=2, **recipe).model_copy(
            update={"strategy": Strategy(kind="sharded", workers=group.count)}
        )
        for group in (pair.one, pair)
    )
    asked = RequestedScenarios(test=(one, two))
    first, second = measured("torch_throughput", tmp_path, asked, iterations=20)
    check(first, 1)
    check(second, 2)


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


def test_a_part_of_a_users_model_is_given_all_tensors_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch import device, distributed

    from profilers.torch_throughput.program import Replica

    monkeypatch.setattr("torch.set_num_interop_threads", lambda threads: None)
    config = {"model_type": "t5", "d_model": 8, "d_ff": 8, "d_kv": 4, "num_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_layers": 1, "vocab_size": 9}))
    load = TrainingWorkload(dnn="own-t5", framework="pytorch", image_size=0, batch_size=3)
    source = "hf:config.json?sequence_length=4", str(tmp_path)
    network = TrainedNetwork(workload=load, wrapper="sharded", source=source)
    said = dict[str, object]()

    def say(event: str, **facts: object) -> None:
        said[event] = facts

    any_dist: Any = distributed
    any_dist.init_process_group("gloo", rank=0, world_size=1, store=any_dist.HashStore())
    rank: Any = SimpleNamespace(
        device=device("cpu"), groups=[any_dist.group.WORLD], barrier=int, settle=int
    )
    try:
        threads = {"threads": 1, "inter_op_threads": 1}
        replica = Replica({"network": network.model_dump(mode="json"), **threads}, rank, say)
        replica.replicate()
        replica.train(3, 2)
    finally:
        any_dist.destroy_process_group()
    assert [*said] == ["replicated", "trained"]


@pytest.mark.cluster
def test_a_rank_that_dies_fails_what_is_left_and_nothing_stays(
    home: Path, tmp_path: Path, started: "list[subprocess.Popen[str]]"
) -> None:
    pair = workers_of(2)
    scenarios = [scenario(pair, batch_size=size) for size in (1, 2, 4)]

    def die(message: str) -> None:
        if " b2," in message:
            started[-1].kill()

    asked = RequestedScenarios(test=tuple(scenarios))
    needs = list(PROBE.needs(asked, Settings(iterations=20)))
    with open_cluster("emulated", [pair], scenarios[0].link_mbps) as cluster:
        session = Session(cluster, tmp_path, die, "test", 1)
        (_, first), *rest = measure_planned_runs(PROBE, session, needs)
        assert all(program.poll() is not None for program in started)
    assert first.run.status == "ok"
    assert [result.scenario for _, result in rest] == scenarios[1:]
    assert all(result.run.status == "failed" and not result.tables for _, result in rest)
    assert all("ended early" in str(result.run.error) for _, result in rest)
    assert left_behind() == []


@pytest.mark.cluster
def test_who_stops_listening_ends_the_programs(
    tmp_path: Path, started: "list[subprocess.Popen[str]]"
) -> None:
    pair = workers_of(2)
    asked = RequestedScenarios(test=tuple(scenario(pair, batch_size=size) for size in (1, 2)))
    needs = list(PROBE.needs(asked, Settings(iterations=20)))
    with open_cluster("emulated", [pair], needs[0].subject.link_mbps) as cluster:
        session = Session(cluster, tmp_path, lambda _: None, "test", 1)
        results = measure_planned_runs(PROBE, session, needs)
        assert next(results)[1].run.status == "ok"
        results.close()  # type: ignore[attr-defined]
        assert len(started) == 2
        assert all(program.poll() is not None for program in started)
