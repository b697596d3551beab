"""Nodes that are slower than their type says, in one way at a time."""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from profilers.clusters import Cluster, Node
from profilers.clusters.base import SOURCE, with_env
from profilers.clusters.emulated import EmulatedCluster
from profilers.probe import Need
from warehouse.records import BadInput, NodeGroup, Run

What = Literal["links", "cpu_share", "memory"]
KEY = "injected"
"""Where a run's config says what was made slower, as JSON; quiet runs have none."""
SIZES = (0.05, 0.1, 0.15, 0.2, 0.3)
_RELOADED_S_PER_BYTE = 1.3e-10
"""First guess of the processor time that a marked byte of memory costs; what landed corrects it."""


@dataclass(frozen=True)
class Injection:
    """What is made slower, and by which part: 0.1 leaves nine tenths of its speed.

    Attributes:
        what: links: their speed, in both directions. cpu_share: the processor time of each second.
            memory: the bytes copied for each second of processor time, about so much slower.
        by: that part.
        rate_Bps: of memory, how much is marked as unused each second (`slow_memory`).
    """

    what: What
    by: float
    rate_Bps: float | None = field(default=None, compare=False)

    def label(self, run: Run, link_mbps: float | None) -> Run:
        """Return a run that tells of it, about links of the speed that they should have."""
        told = {"what": self.what, "by": self.by, "rate_Bps": self.rate_Bps}
        return run.model_copy(
            update={"config": {**run.config, "link_mbps": link_mbps, KEY: json.dumps(told)}}
        )

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """Return what a run tells of; None: it was quiet."""
        told = run.config.get(KEY)
        return None if told is None else cls(**json.loads(str(told)))


def cluster_for(need: Need, injection: Injection | None) -> Cluster:
    """Return an emulated cluster of the nodes of a need, slower as is asked for.

    Raises:
        BadInput: its links are not shaped, or its nodes have no share of a processor.
    """
    nodes, link_mbps = need.nodes, need.subject.link_mbps
    match injection:
        case Injection("links", by):
            if link_mbps is None:
                raise BadInput(f"{need.title}: links without a speed cannot be made slower")
            return EmulatedCluster(nodes, link_mbps * (1 - by))
        case Injection("cpu_share", by):
            slower = {"cpu_share": share_of(nodes) * (1 - by)}
            return EmulatedCluster((nodes[0].model_copy(update=slower), *nodes[1:]), link_mbps)
        case Injection("memory", rate_Bps=float(rate_Bps)):
            return _SlowMemory(nodes, link_mbps, rate_Bps)
    return EmulatedCluster(nodes, link_mbps)


def share_of(nodes: Sequence[NodeGroup]) -> float:
    """Return the processor time a second of the worker.

    Raises:
        BadInput: it has all that there is.
    """
    if nodes[0].cpu_share is None:
        raise BadInput(f"{nodes[0].node_type}: a node without a cpu_share cannot be made slower")
    return nodes[0].cpu_share


def memory_rate_Bps(by: float, share: float, done: Iterable[tuple[float, float]]) -> float:
    """Return how many bytes to mark each second so that copies are slower by a part.

    Args:
        by: that part.
        share: processor seconds a second of the node.
        done: rates of earlier runs, and by which part copies were slower then.
    """
    pairs = list(done)
    marked = sum(rate_Bps / share for rate_Bps, _ in pairs)
    reloaded_s = sum(found / (1 - found) for _, found in pairs)
    each_s = reloaded_s / marked if marked and reloaded_s > 0 else _RELOADED_S_PER_BYTE
    return by / (1 - by) * share / each_s


class _SlowMemory(EmulatedCluster):
    """Nodes whose programs' memory is slower from when they are held to their share."""

    def __init__(
        self, groups: Sequence[NodeGroup], link_mbps: float | None, rate_Bps: float
    ) -> None:
        super().__init__(groups, link_mbps)
        self._rate_Bps = rate_Bps
        self._slowing: list[subprocess.Popen[bytes]] = []

    def confine(self, node: Node, process: "subprocess.Popen[str]") -> None:
        super().confine(node, process)
        arguments = [str(process.pid), f"{self._rate_Bps:.0f}"]
        program = [sys.executable, "-m", "benchmarks.drift.slow_memory", *arguments]
        bound = ["setpriv", "--pdeathsig", "KILL", *with_env({"PYTHONPATH": str(SOURCE)})]
        self._slowing.append(subprocess.Popen([*bound, *program]))

    def down(self) -> None:
        for one in self._slowing:
            one.kill()
            one.wait()
        self._slowing = []
        super().down()
