"""One PyTorch network in training on one node: started, asked for steps, ended."""

from collections.abc import Sequence
from typing import Any, cast

import polars as pl

from profilers.clusters import Cluster
from profilers.nodes.compute import ComputeConfig
from profilers.nodes.programs import Job
from profilers.nodes.torch_program import START_TIMEOUT_S, Facts, cluster_nodes, environment
from profilers.nodes.torch_training import Layer, Step
from warehouse.records import BadInput, Scenario

STEP_TIMEOUT_S = 300.0


class ComputeJob(Job):
    """The network of a scenario on worker 0; a context manager.

    It is the only replica of DDP there, with its buckets, as it trains with others. `searching` for
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
        module = "profilers.nodes.compute"
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
    check_all_reduce(scenario)
    if scenario.strategy.workers != 1:
        raise BadInput(
            f"{scenario.label}: a profile needs one worker, found {scenario.strategy.workers}"
        )


def check_all_reduce(scenario: Scenario) -> None:
    """Refuse what is not PyTorch without servers.

    Raises:
        BadInput: naming what is wrong.
    """
    kind, framework = scenario.strategy.kind, scenario.workload.framework
    if (kind, framework) != ("all_reduce", "pytorch"):
        raise BadInput(
            f"{scenario.label}: expected all_reduce with framework pytorch, found {kind} with "
            f"{framework}"
        )
