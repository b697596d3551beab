"""A small network in training and copies of memory on one node: started, asked for, ended."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from profilers.clusters import Cluster, Node
from profilers.nodes.compute import ComputeConfig
from profilers.nodes.programs import Job
from profilers.nodes.torch_program import START_TIMEOUT_S, environment

DNN, IMAGE_SIZE, BATCH_SIZE = "small_cnn", 24, 4
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Done:
    """How often something was done, and the seconds and processor seconds of all."""

    times: int
    wall_s: float
    cpu_s: float


class WatchJob(Job):
    """The program of `profilers.nodes.watch` on a node; a context manager.

    Raises:
        ProbeFailed: the program died.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        super().__init__(cluster, f"watch of {node.group.node_type}")
        self._cluster, self._node = cluster, node

    def train(self, seconds: float) -> Done:
        """Train for about so long; return what steps took."""
        return self._ask("train", "trained", seconds)

    def copy(self, seconds: float) -> Done:
        """Copy memory for about so long; return what copies took."""
        return self._ask("copy", "copied", seconds)

    def _ask(self, do: str, answer: str, seconds: float) -> Done:
        name = self._node.name
        timeout_s = _TIMEOUT_S + seconds
        reply = self._programs.ask([name], answer, timeout_s, do=do, seconds=seconds)[name]
        told = cast(Mapping[str, Any], reply)
        return Done(int(told["times"]), float(told["wall_s"]), float(told["cpu_s"]))

    def _start(self) -> None:
        node, programs = self._node, self._programs
        threads, inter_op = node.group.threads, node.group.inter_op_threads
        network = (DNN, IMAGE_SIZE)
        config = ComputeConfig(
            self._cluster.interface, *network, threads, inter_op, replicated=False, branches=False
        )
        told = json.dumps({**asdict(config), "batch_size": BATCH_SIZE})
        variables = environment(self._cluster, node)
        programs.start(node.name, node, "profilers.nodes.watch", told, variables)
        programs.expect([node.name], "ready", START_TIMEOUT_S)
        programs.confine(node.name)
