"""Probe `inventory`: what a node of a type can do, within its share.

Floating-point operations a second in convolutions of all channels, of single pixels and of single
channels, bytes a second through memory and to disk, cores and memory: features of clusters
(PredictDDL, section III-C). Earlier runs have no convolutions of single pixels. Where a study asks,
also in matrix products of some precisions.
And how long its host takes to issue an operator of a training step, by kind (Ceer, section III, has
medians of operations on processors): small networks of several kinds of layers are trained, whose
steps take as long as that. Earlier runs have none of it.
Kinds of work take turns, so that a slow moment of the host hits all of them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import polars as pl
from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, model_serializer

from profilers import clock
from profilers.clusters import Cluster, Node
from profilers.clusters.node_types import lacks_precision
from profilers.nodes.programs import BaseJob
from profilers.nodes.torch_program import START_TIMEOUT_S, Facts, environment
from profilers.probe import (
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Setting,
    finished_run,
    one_by_one,
    start_s,
)
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from warehouse import limits
from warehouse.fields import Precision, Repeats, Seconds
from warehouse.records import BadInput, NodeGroup, Record
from warehouse.requirements import Subject

METRICS = {
    "dense": ("inventory_dense_flops", "FLOP/s"),
    "pointwise": ("inventory_pointwise_flops", "FLOP/s"),
    "depthwise": ("inventory_depthwise_flops", "FLOP/s"),
    "memory": ("inventory_memory_Bps", "B/s"),
    "disk": ("inventory_disk_Bps", "B/s"),
}
"""Name and unit of what each kind of work is counted in."""
ISSUE_KINDS = ("step", "parameter", "view", "elementwise", "product", "normalization")
"""What a host issues: what a step and each parameter cost once, then operators of a kind."""
PRODUCTS = "product_"
"""How kinds of work are called that are matrix products of a precision."""
PATIENCE_S = 20.0
_TIMEOUT_S = 120.0


class InventoryJob(BaseJob):
    """The program of `profilers.inventory.program` on a node; a context manager.

    Raises:
        ProbeFailed: the program died.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        super().__init__(cluster, f"inventory of {node.group.node_type}")
        self._cluster, self._node = cluster, node

    @property
    def facts(self) -> Facts:
        """What the node says of itself."""
        return self._facts

    def rate(self, kind: str, seconds: float) -> float:
        """Return how much work of a kind is done a second."""
        name = self._node.name
        timeout_s = _TIMEOUT_S + 20 * seconds
        answers = self._programs.ask([name], "done", timeout_s, do="do", kind=kind, seconds=seconds)
        answer = cast(dict[str, Any], answers[name])
        return float(answer["amount"]) / float(answer["wall_s"])

    def issue_s(self, seconds: float) -> Mapping[str, float]:
        """Train small networks for about so long; return the host's seconds by `ISSUE_KINDS`."""
        name, timeout_s = self._node.name, _TIMEOUT_S + 20 * seconds
        answers = self._programs.ask([name], "issued", timeout_s, do="issue", seconds=seconds)
        return issue_times(cast(Sequence[Mapping[str, Any]], answers[name]["networks"]))

    def _start(self) -> None:
        node, programs = self._node, self._programs
        config_json = json.dumps(
            {"threads": node.group.threads, "interface": self._cluster.interface}
        )
        variables = environment(self._cluster, node)
        programs.start(node.name, node, "profilers.inventory.program", config_json, variables)
        ready = programs.expect([node.name], "ready", START_TIMEOUT_S)[node.name]
        self._facts = Facts.of(ready)
        programs.confine(node.name)


def issue_times(networks: Sequence[Mapping[str, Any]]) -> Mapping[str, float]:
    """Return the seconds of each of `ISSUE_KINDS` that steps of networks took; none is negative.

    Args:
        networks: of each, `kinds` (how many of each kind a step has) and `wall_s` of a step.
    """
    import numpy as np
    from scipy.optimize import nnls

    counts = np.array(
        [
            [network["kinds"].get(kind, kind == "step") for kind in ISSUE_KINDS]
            for network in networks
        ],
        float,
    )
    walls_s = np.array([network["wall_s"] for network in networks])
    kinds_s, _ = nnls(counts / walls_s[:, None], np.ones(len(networks)))
    return dict(zip(ISSUE_KINDS, kinds_s.tolist(), strict=True))


def measure(
    cluster: Cluster,
    context: RunContext,
    *,
    turns: int,
    seconds: float,
    precisions: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Time each kind of work in turns.

    Args:
        cluster: a worker.
        context: study and round.
        turns: how often each is timed.
        seconds: for how long.
        precisions: of matrix products that are timed too.
        progress: told what runs now.

    Returns:
        A run with table `sample`: `METRICS` and those of products, and `inventory_issue_KIND_s` of
        `ISSUE_KINDS`, one row a turn; cores and memory of the node once.

    Raises:
        ProbeFailed: the program died.
    """
    node, started_at = cluster.of_role("worker")[0], clock.now()
    kinds = _kinds(precisions)
    patience = Patience(cluster.cpu_times, PATIENCE_S)
    rows: list[tuple[str, str, int | None, float]] = []
    with host_lock(progress), InventoryJob(cluster, node) as job:
        for turn in range(turns):
            progress(f"probe inventory: {node.group.node_type}, turn {turn + 1} of {turns}")
            for kind, (metric, unit) in kinds.items():
                done = patience.measure_undisturbed(partial(job.rate, kind, seconds))
                rows.append((metric, unit, turn, done.value))
            issued = patience.measure_undisturbed(partial(job.issue_s, seconds)).value
            rows += [(f"inventory_issue_{kind}_s", "s", turn, issued[kind]) for kind in ISSUE_KINDS]
        rows += _of_machine(job.facts, node.group)
    settings: dict[str, Setting] = {"worker": node.group.node_type, "turns": turns}
    if precisions:
        settings["precisions"] = ", ".join(precisions)
    run = finished_run("inventory", cluster, None, context, started_at, settings)
    schema = {"metric": pl.String, "unit": pl.String, "window": pl.Int16, "value": pl.Float64}
    return ProbeResult(run, None, {"sample": pl.DataFrame(rows, schema, orient="row")})


def _kinds(precisions: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Return the metric and unit of each kind of work."""
    products = {
        f"{PRODUCTS}{name}": (f"inventory_product_{name}_flops", "FLOP/s") for name in precisions
    }
    return {**METRICS, **products}


def _of_machine(facts: Facts, group: NodeGroup) -> Iterator[tuple[str, str, None, float]]:
    yield "inventory_cores", "1", None, float(group.cpu_share or facts.cores)
    yield "inventory_memory_bytes", "B", None, float(group.memory_bytes or facts.memory_bytes)
    yield "inventory_gpus", "1", None, float(len(facts.devices))


class Settings(Record):
    """How often each kind of work is timed, for how many seconds; precisions of products."""

    turns: Repeats = 5
    seconds: Seconds = 1.0
    precisions: tuple[Precision, ...] = Field(default=(), max_length=limits.LISTED)

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        # Inventories that landed before there was a choice are what is asked for without one.
        fields: dict[str, JsonValue] = handler(self)
        if not self.precisions:
            fields.pop("precisions", None)
        return fields


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each type of workers once."""
    groups = {
        group.node_type: group for scenario in requested.cluster for group in scenario.worker_groups
    }
    for node_type, group in groups.items():
        for precision in settings.precisions:
            if lacks := lacks_precision(node_type, precision):
                raise BadInput(f"precisions: {lacks}")
        nodes = (group.one.model_copy(update={"batch_size": None}),)
        yield PlannedRun(
            Subject("inventory", None, None, {"worker": node_type}),
            "profile",
            f"probe inventory, {node_type}",
            nodes,
            settings.model_dump(),
            expected_s=settings.turns
            * (1.5 * settings.seconds)
            * (len(_kinds(settings.precisions)) + 1),
            start_s=start_s(nodes),
        )


PROBE = Probe(
    name="inventory",
    what="What a node's share of it can do: convolutions, memory, disk.",
    kind="pytorch",
    tables=("sample",),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: measure),
    essential=frozenset({"precisions"}),
    one_node=True,
)
