"""The watch probe: what it needs of a study, and one that runs for real."""

from pathlib import Path
from typing import Any

import pytest

from profilers.clusters.emulated import check_shares
from profilers.clusters.node_types import node_group, node_types
from profilers.probe import PlannedRun, RequestedScenarios
from profilers.watch import probe as watch
from tests.profilers.training import measured, scenario
from warehouse.records import Scenario

PROCESSORS = {watch.STEP_TIME, watch.STEP_CPU, watch.CPU_SHARE, watch.MEMORY}
LINKS = {watch.TO_SERVER, watch.FROM_SERVER}


def asked(node_type: str, link_mbps: float | None = 200) -> Scenario:
    """Return training of two nodes of a type."""
    training = scenario(node_group("worker", node_type, 2))
    return training.model_copy(update={"link_mbps": link_mbps})


def needs(*cluster: Scenario) -> list[PlannedRun]:
    """Return what is needed by default."""
    return list(watch.PROBE.needs(RequestedScenarios(cluster=cluster), watch.Settings()))


def test_each_type_and_speed_of_links_is_watched_once() -> None:
    some = [asked("emu.avx2.s15"), asked("emu.avx2.s15"), asked("emu.avx2.s15", None)]
    planned = needs(*some, asked("emu.sse41.s15"))
    subjects = [(need.subject.config["worker"], need.subject.link_mbps) for need in planned]
    assert subjects == [("emu.avx2.s15", 200), ("emu.avx2.s15", None), ("emu.sse41.s15", 200)]
    assert all(need.subject.scenario is None for need in planned)


@pytest.mark.parametrize("node_type", sorted(node_types()))
def test_two_cores_are_enough_for_any_type(node_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    (need,) = needs(asked(node_type))
    check_shares(need.nodes)
    assert [group.role for group in need.nodes] == ["worker", "server"]
    assert need.nodes[0] == node_group("worker", node_type, 1)


@pytest.mark.measuring
@pytest.mark.cluster
def test_nodes_of_steady_cores_are_watched(alone: None, tmp_path: Path) -> None:
    of = RequestedScenarios(cluster=(asked("emu.avx2.s40", 100),))
    quick: dict[str, Any] = {"turns": 2, "compute_s": 1.5, "memory_s": 1, "links_s": 1}
    (result,) = measured("watch", tmp_path, of, **quick)
    table = result.tables["sample"]
    assert set(table["metric"]) == watch.UNITS.keys()
    assert set(table["window"]) == {0, 1}
    assert all(table["value"].filter(table["metric"] != "stolen_cpu_fraction") > 0)
    figures = {name: rows["value"].mean() for (name,), rows in table.group_by("metric")}
    # Held to their share and links: neither a whole core nor an unshaped link.
    share, flow_Bps = figures[watch.CPU_SHARE], figures[watch.TO_SERVER]
    assert isinstance(share, float)
    assert isinstance(flow_Bps, float)
    assert 0.03 < share < 0.9
    assert 100e6 / 8 * 0.1 < flow_Bps < 100e6 / 8 * 1.05
    assert figures.keys() >= PROCESSORS | LINKS
