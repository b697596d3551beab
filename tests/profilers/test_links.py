"""What the links probe makes of the flows that iperf3 reports."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from profilers.clusters.base import LoopbackCluster
from profilers.clusters.node_types import node_group
from profilers.links import probe as links
from profilers.probe import RunContext
from warehouse.records import ProbeFailed

GROUPS = (node_group("server", "emu.server", 1), node_group("worker", "emu.native.c25", 2))


def report(mbps: float) -> dict[str, Any]:
    """Return what iperf3 says of a flow, as far as it is read."""
    received = {"seconds": 1.0, "bytes": mbps * 125e3, "bits_per_second": mbps * 1e6}
    return {"end": {"sum_received": received, "sum_sent": {"retransmits": 0}}}


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Any]:
    """Return a function that probes links shaped to 100 Mb/s, of which flows get so much each."""

    def probed(mbps: float) -> Any:
        def flows(cluster: object, workers: Sequence[object], *_: object) -> list[Any]:
            return [report(mbps) for _ in workers]

        monkeypatch.setattr(links, "simultaneous", flows)
        cluster = LoopbackCluster(GROUPS, None)
        cluster.up()
        cluster.link_mbps = 100
        context = RunContext("test", 1, "profile", tmp_path)
        return links.measure(cluster, context, flows=(1, 2), seconds=1, trials=1)

    return probed


def test_a_host_too_slow_for_its_links_is_no_measurement(measure: Callable[[float], Any]) -> None:
    with pytest.raises(ProbeFailed, match=r"1 flow\(s\): 40 Mb/s on links shaped to 100, while"):
        measure(40)
