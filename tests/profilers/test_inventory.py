"""The inventory probe: what it needs of a study, and two nodes whose shares differ by four."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from models.gpu_step.host_time import HostTime
from models.gpu_step.operators import work_of
from networks.gpu_steps import GpuStep
from networks.gpu_trace import trace_step
from profilers.clusters.node_types import node_group
from profilers.inventory import probe as inventory
from profilers.inventory.program import Inventory, SmallStep
from profilers.probe import PlannedRun, RequestedScenarios
from tests.profilers.training import measured, samples, scenario
from warehouse.records import NodeGroup, Scenario


def asked(*groups: NodeGroup) -> Scenario:
    """Return training on nodes of these groups."""
    return scenario(groups[0]).model_copy(update={"nodes": groups})


def needs(*cluster: Scenario) -> list[PlannedRun]:
    """Return what is needed by default."""
    return list(inventory.PROBE.needs(RequestedScenarios(cluster=cluster), inventory.Settings()))


def test_each_type_is_taken_stock_of_once_whatever_its_links_and_numbers() -> None:
    two, four = (node_group("worker", "emu.avx2.s15", count) for count in (2, 4))
    other = node_group("worker", "emu.sse41.s15", 1)
    unshaped = asked(two).model_copy(update={"link_mbps": None})
    planned = needs(asked(two), asked(four), unshaped, asked(two, other))
    assert [need.subject.config["worker"] for need in planned] == ["emu.avx2.s15", "emu.sse41.s15"]
    assert all(need.subject.link_mbps is None for need in planned)
    assert [need.nodes for need in planned] == [(two.one,), (other.one,)]
    assert all(need.profiles for need in planned)


def figures(group: NodeGroup, folder: Path) -> dict[str, float]:
    """Take stock of a node for real, one short turn; return the figures."""
    asked_for = RequestedScenarios(cluster=(asked(group),))
    (result,) = measured("inventory", folder, asked_for, turns=1, seconds=0.5)
    # What a run finds out is in its rows: its config is what tells comparable runs.
    found_out = {"gauge_us", "host_gflops", "usd_per_hour"}
    own = {name for name in result.run.config if name in {"worker", "turns"} or "inv" in name}
    assert own == {"worker", "turns"}
    assert found_out <= result.run.config.keys()
    sample = result.tables["sample"]
    assert sample.height == sample["metric"].n_unique()
    assert sample.filter(~pl.col("value").is_finite()).is_empty()
    return samples(result)


@pytest.mark.measuring
@pytest.mark.cluster
def test_a_larger_share_can_do_more(tmp_path: Path) -> None:
    """For real: 0.8 and 0.2 of a core, which a quiet and a busy host both tell apart."""
    group = node_group("worker", "emu.avx2.s40", 1)
    large, small = (
        figures(group.model_copy(update={"cpu_share": share}), tmp_path) for share in (0.8, 0.2)
    )
    assert large.keys() == {name for name, _ in inventory.METRICS.values()} | {
        "inventory_cores",
        "inventory_memory_bytes",
        "inventory_gpus",
        *(f"inventory_issue_{kind}_s" for kind in inventory.ISSUE_KINDS),
    }
    speeds = ("dense_flops", "pointwise_flops", "depthwise_flops", "memory_Bps")
    for name in (f"inventory_{speed}" for speed in speeds):
        assert large[name] > small[name] > 0
    assert large["inventory_dense_flops"] > large["inventory_depthwise_flops"]
    assert large["inventory_disk_Bps"] > 0
    assert (large["inventory_cores"], small["inventory_cores"]) == (0.8, 0.2)
    assert large["inventory_gpus"] == 0
    assert large["inventory_memory_bytes"] > 2**28


def test_operators_are_timed_by_kind_from_steps_of_small_networks() -> None:
    """What made the steps is found; what cannot be negative is not."""
    us = {"step": 100, "parameter": 2, "view": 1, "elementwise": 5, "product": 8}
    networks = [
        {"view": 4, "elementwise": 9, "product": 2, "parameter": 1},
        {"view": 100, "elementwise": 9, "product": 2, "parameter": 1},
        {"view": 4, "elementwise": 60, "product": 2, "parameter": 1},
        {"view": 30, "elementwise": 60, "product": 70, "parameter": 25},
        {"view": 4, "elementwise": 60, "product": 2, "parameter": 25},
    ]
    measured = [
        {
            "kinds": kinds,
            "wall_s": 1e-6 * (us["step"] + sum(us[name] * each for name, each in kinds.items())),
        }
        for kinds in networks
    ]
    times_s = inventory.issue_times(measured)
    assert times_s == pytest.approx(
        {**{name: 1e-6 * time_us for name, time_us in us.items()}, "normalization": 0}
    )


def test_small_steps_are_of_the_operators_that_a_gpu_is_asked_for() -> None:
    """For real: each kind of layer adds operators of its kind, as forecasts of GPUs count them."""
    reports: list[dict[str, Any]] = []
    Inventory(1, lambda event, **facts: reports.append(facts)).issue(0.05)
    (networks,) = (report["networks"] for report in reports)
    plain, *others = (network["kinds"] for network in networks)
    layers = 24
    added = [
        {name: each - plain.get(name, 0) for name, each in kinds.items() if each != plain.get(name)}
        for kinds in others
    ]
    views, tanh, linear, norm, scaled = added
    # There and back, forward and backward.
    assert views == {"view": 4 * layers}
    assert tanh == {"elementwise": 2 * layers}
    assert (linear["product"], linear["parameter"]) == (3 * layers, 2 * layers)
    assert (norm["normalization"], norm["parameter"]) == (2 * layers, 2 * layers)
    # A product forward, two backward, and plain SGD.
    assert scaled == {"elementwise": 4 * layers, "parameter": layers}
    assert all(network["wall_s"] > 0 for network in networks)
    times = inventory.issue_times(networks)
    assert times.keys() == set(inventory.ISSUE_KINDS) and min(times.values()) >= 0


def test_steps_are_counted_as_forecasts_of_gpus_count_them() -> None:
    def layers() -> list[torch.nn.Module]:
        return [torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Tanh()]

    counted = dict(SmallStep(layers(), "cpu").kinds())
    with FakeTensorMode():
        network = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), *layers())
        given, labels = torch.randn(8, 8), torch.zeros(8, dtype=torch.int64)
        trace = GpuStep.of(trace_step(network, given, labels))
    assert counted.pop("parameter") == len(trace.parameters)
    # The processor's SGD is an operator for each parameter, and that of GPUs one for all.
    counted["elementwise"] -= len(trace.parameters)
    works = [work_of(trace.operators[place]) for place in trace.order]
    for kind, number in counted.items():
        host = HostTime({**dict.fromkeys(inventory.ISSUE_KINDS, 0.0), kind: 1.0}, 0)
        assert sum(map(host.issue_us, works)) == number, kind
