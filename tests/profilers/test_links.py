"""What the links probe makes of the flows that iperf3 reports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from profilers.clusters.base import LoopbackCluster
from profilers.clusters.node_types import node_group
from profilers.links import probe as links
from profilers.probe import RequestedScenarios, Session, measure_planned_runs
from tests.profilers.training import LINK_MBPS, with_server

GROUPS = (node_group("server", "emu.server", 1), node_group("worker", "emu.native.c25", 2))


def test_a_host_too_slow_for_its_links_is_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flows(cluster: object, workers: Sequence[object], *_: object) -> list[Any]:
        received = {"seconds": 1.0, "bytes": 5_000_000, "bits_per_second": 40e6}
        return [{"end": {"sum_received": received, "sum_sent": {}}} for _ in workers]

    monkeypatch.setattr(links, "simultaneous", flows)
    pair = with_server(2).model_copy(update={"link_mbps": LINK_MBPS})
    needs = list(links.PROBE.needs(RequestedScenarios(cluster=(pair,)), links.Settings()))
    with LoopbackCluster(GROUPS, LINK_MBPS) as cluster:
        cluster.link_mbps = LINK_MBPS
        session = Session(cluster, tmp_path, lambda _: None, "test", 1)
        ((_, result),) = measure_planned_runs(links.PROBE, session, needs)
    error = str(result.run.error)
    assert error.startswith("downlink, 1 flow(s): 40 Mb/s on links shaped to 100, while")
