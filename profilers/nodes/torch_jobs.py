"""PyTorch jobs on nodes: one network on one node, or the ranks of a job until they have met."""

import itertools
from collections.abc import Collection, Mapping, Sequence

from profilers.clusters import Cluster, Node
from profilers.nodes.programs import (
    START_TIMEOUT_S,
    STEP_TIMEOUT_S,
    Message,
    NodeProgram,
    Programs,
    interleave_node_types,
)
from profilers.nodes.torch_network import TrainedNetwork
from profilers.nodes.torch_rank import TIMEOUT_S
from profilers.nodes.torch_training import Layer, Step
from warehouse.records import Scenario


class ComputeJob(NodeProgram):
    """The network of a scenario on worker 0; a context manager.

    It is the only replica of DDP there, with its buckets, as it trains with others; of strategy
    single it is no replica. `searching` for the largest batch, the program is held to its node's
    share and memory before it loads anything, because what PyTorch takes counts too.
    """

    def __init__(self, cluster: Cluster, scenario: Scenario, *, searching: bool = False) -> None:
        super().__init__(
            cluster,
            cluster.of_role("worker")[0],
            scenario.label,
            "profilers.nodes.torch_network",
            "start" if searching else "ready",
            network=TrainedNetwork.of(scenario).model_dump(mode="json"),
        )

    def layers(self) -> list[Layer]:
        """Return the layers of the network."""
        reply = self.answer("layers", START_TIMEOUT_S, do="layers")
        return [Layer(**fields) for fields in reply["layers"]]

    def train(self, batch_size: int, steps: int, *, watched: bool = False) -> list[Step] | None:
        """Train steps; None where an allocation was refused. `watched` as in `Trainer.step`."""
        command = {"batch_size": batch_size, "steps": steps, "watched": watched, "resting": True}
        reply = self.answer("trained", STEP_TIMEOUT_S * steps, do="train", **command)
        return None if reply["steps"] is None else [Step(**fields) for fields in reply["steps"]]


class Ranks(Programs):
    """Ranks that have met at rank 0 and are held to their nodes' shares; a context manager.

    NCCL reduces where every node has as many GPUs as ranks, otherwise Gloo.

    Args:
        cluster: where the nodes are.
        label: in messages.
        nodes: that have the ranks, their types in turn.
        module: the program, which obeys `join` and `group` (`torch_rank.Rank`).
        devices_per_node: ranks of each node.
        config: of the program, beside the `device` of its node.
    """

    def __init__(
        self,
        cluster: Cluster,
        label: str,
        nodes: Sequence[Node],
        module: str,
        devices_per_node: int = 1,
        **config: object,
    ) -> None:
        super().__init__(cluster, label)
        self.devices_per_node = devices_per_node
        places = itertools.product(interleave_node_types(nodes), range(devices_per_node))
        self._places = {f"{node.name}.{device}": (node, device) for node, device in places}
        self._module, self._config = module, config

    def _start_all(self) -> None:
        for name, (node, device) in self._places.items():
            self.start(name, node, self._module, device=device, **self._config)
        self.ready = self.expect(self._places, "ready", START_TIMEOUT_S)
        each = self.devices_per_node
        gpus = all(len(said["devices"]) >= each for said in self.ready.values())
        self.library = "nccl" if gpus else "gloo"
        first, _ = next(iter(self._places.values()))
        store = {"address": first.address, "port": self.cluster.free_port(first)}
        for rank, name in enumerate(self._places):
            place = {"rank": rank, "ranks": len(self._places), "library": self.library}
            self.tell(name, do="join", **place, **store)
        self.expect(self._places, "joined", TIMEOUT_S)
        for name in self._places:
            self.confine(name)

    def connect(self, names: Collection[str], concurrent: int) -> None:
        """Let these ranks connect for so many transfers at once."""
        members = [rank for rank, name in enumerate(self._places) if name in names]
        command = {"do": "group", "members": members, "concurrent": concurrent}
        self.ask(self._places, "grouped", TIMEOUT_S, **command)

    def first(self, world_size: int | None = None) -> list[str]:
        """Return the names of the first ranks' programs; None: of all."""
        return list(self._places)[:world_size]

    def on(self, nodes: Collection[Node]) -> list[str]:
        """Return the names of the programs of some nodes, by rank."""
        return [name for name, (node, _) in self._places.items() if node in nodes]

    def members(self, names: Collection[str]) -> Mapping[Node, Message]:
        """Return the nodes of these ranks, and what a program of each said when it was ready."""
        return {self._places[name][0]: self.ready[name] for name in names}
