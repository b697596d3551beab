"""PyTorch jobs on nodes: one network on one node, or the ranks of a job until they have met."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import polars as pl

from profilers.allreduce.program import TIMEOUT_S
from profilers.clusters import Cluster, Node
from profilers.clusters.node_types import lacks_precision
from profilers.nodes.programs import BaseJob, Programs
from profilers.nodes.torch_program import START_TIMEOUT_S, Facts, cluster_nodes, environment
from profilers.nodes.torch_training import Layer, Step
from profilers.scenarios import trains_pytorch
from profilers.torch_compute.program import ComputeConfig
from warehouse.records import BadInput, Scenario

STEP_TIMEOUT_S = 300.0


class ComputeJob(BaseJob):
    """The network of a scenario on worker 0; a context manager.

    It is the only replica of DDP there, with its buckets, as it trains with others; of strategy
    single it is no replica. `searching` for
    the largest batch, the program is held to its node's share and memory before it loads anything,
    because what PyTorch takes counts too. `branches`: as in `ComputeConfig`.

    Raises:
        Killed: the node has too little memory.
        ProbeFailed: the program died.
    """

    def __init__(
        self,
        cluster: Cluster,
        scenario: Scenario,
        *,
        searching: bool = False,
        branches: bool = False,
    ) -> None:
        check_single(scenario)
        self._node = cluster.of_role("worker")[0]
        self._name = self._node.name
        super().__init__(cluster, scenario.label)
        self._config = ComputeConfig.of(
            cluster.interface, scenario, self._node, replicated=True, branches=branches
        )
        self._environment = environment(cluster, self._node)
        self._confined_start = searching

    def train(self, batch_size: int, steps: int, *, watched: bool = False) -> list[Step] | None:
        """Train steps; None where an allocation was refused. `watched` as in `Trainer.step`."""
        command = {"batch_size": batch_size, "steps": steps, "watched": watched, "resting": True}
        timeout_s = STEP_TIMEOUT_S * steps
        reply = self._programs.ask([self._name], "trained", timeout_s, do="train", **command)
        done = cast(Sequence[dict[str, Any]] | None, reply[self._name]["steps"])
        return None if done is None else [Step(**fields) for fields in done]

    def _start(self) -> None:
        programs, name = self._programs, self._name
        module = "profilers.torch_compute.program"
        programs.start(name, self._node, module, self._config.to_json(), self._environment)
        if self._confined_start:
            programs.confine(name)
        ready = programs.expect([name], "ready", START_TIMEOUT_S)[name]
        layers = cast(Sequence[dict[str, Any]], ready["layers"])
        self.layers = [Layer(**fields) for fields in layers]
        self.cluster_node: pl.DataFrame = cluster_nodes({self._node: Facts.of(ready)})
        if not self._confined_start:
            programs.confine(name)


def check_single(scenario: Scenario) -> None:
    """Refuse what is not one worker that trains a PyTorch network without servers.

    Raises:
        BadInput: naming what is wrong.
    """
    check_trains(scenario)
    if scenario.strategy.workers != 1:
        raise BadInput(
            f"{scenario.label}: a profile needs one worker, found {scenario.strategy.workers}"
        )


def check_trains(scenario: Scenario) -> None:
    """Refuse what is not PyTorch without servers, and precisions that nodes do not have.

    Raises:
        BadInput: naming what is wrong.
    """
    kind, framework = scenario.strategy.kind, scenario.workload.framework
    if not trains_pytorch(scenario):
        raise BadInput(
            f"{scenario.label}: expected all_reduce, sharded or single with framework pytorch, "
            f"found {kind} with {framework}"
        )
    load = scenario.workload
    if kind == "sharded" and (load.precision == "float16" or load.memory_format != "contiguous"):
        raise BadInput(
            f"{scenario.label}: sharded training is measured in float32 and bfloat16 of contiguous "
            "tensors"
        )
    for group in scenario.worker_groups:
        if lacks := lacks_precision(group.node_type, scenario.workload.precision):
            raise BadInput(f"{scenario.label}: {lacks}")


# The programs of all ranks of a job, from their start until they have met.


class Ranks:
    """Ranks that have met at rank 0 and are held to their nodes' shares.

    NCCL reduces where every node has as many GPUs as ranks, otherwise Gloo.

    Args:
        cluster: where the nodes are.
        programs: of the job; what is started here ends with them.
        nodes: in the order of their ranks.
        module: the program, which obeys `join` and `group` (`AllreduceRank`).
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
        gpus = all(len(facts.devices) >= devices_per_node for facts in self.facts.values())
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
