"""The programs of all ranks of a job, from their start until they have met."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence

from profilers.clusters import Cluster, Node
from profilers.nodes.allreduce import TIMEOUT_S
from profilers.nodes.programs import Programs
from profilers.nodes.torch_program import START_TIMEOUT_S, Facts, environment


class Ranks:
    """Ranks that have met at rank 0 and are held to their nodes' shares.

    NCCL reduces where every node has as many GPUs as ranks, otherwise Gloo.

    Args:
        cluster: where the nodes are.
        programs: of the job; what is started here ends with them.
        nodes: in the order of their ranks.
        module: the program, which obeys `join` and `group` (see `profilers.nodes.allreduce.Rank`).
        config: its argument, of a node and one of its devices.
        devices_per_node: ranks of each node.

    Raises:
        ProbeFailed: a program died.
    """

    def __init__(
        self,
        cluster: Cluster,
        programs: Programs,
        nodes: Sequence[Node],
        module: str,
        config: Callable[[Node, int], str],
        devices_per_node: int = 1,
    ) -> None:
        self.cluster, self.programs, self.devices_per_node = cluster, programs, devices_per_node
        places = itertools.product(nodes, range(devices_per_node))
        self._nodes = {f"{node.name}.{device}": (node, device) for node, device in places}
        for name, (node, device) in self._nodes.items():
            programs.start(name, node, module, config(node, device), environment(cluster, node))
        ready = programs.expect(self._nodes, "ready", START_TIMEOUT_S)
        self.facts = {name: Facts.of(ready[name]) for name in self._nodes}
        gpus = all(len(one.devices) >= devices_per_node for one in self.facts.values())
        self.library = "nccl" if gpus else "gloo"
        store = {"address": nodes[0].address, "port": cluster.free_port(nodes[0])}
        for rank, name in enumerate(self._nodes):
            place = {"rank": rank, "ranks": len(self._nodes), "library": self.library}
            programs.tell(name, do="join", **place, **store)
        programs.expect(self._nodes, "joined", TIMEOUT_S)
        for name in self._nodes:
            programs.confine(name)

    def connect(self, names: Collection[str], concurrent: int) -> None:
        """Let these ranks connect for so many transfers at once."""
        members = [rank for rank, name in enumerate(self._nodes) if name in names]
        command = {"do": "group", "members": members, "concurrent": concurrent}
        self.programs.ask(self._nodes, "grouped", TIMEOUT_S, **command)

    def first(self, world_size: int) -> list[str]:
        """Return the names of the first ranks' programs."""
        return list(self._nodes)[:world_size]

    def on(self, nodes: Collection[Node]) -> list[str]:
        """Return the names of the programs of some nodes, by rank."""
        return [name for name, (node, _) in self._nodes.items() if node in nodes]

    def members(self, names: Collection[str]) -> Mapping[Node, Facts]:
        """Return the nodes of these ranks."""
        return {self._nodes[name][0]: self.facts[name] for name in names}
