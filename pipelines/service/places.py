"""Where workloads train, and which runs of the history answer for nodes of a type."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forecasting.history_scope import HostSelection as Profiled
from forecasting.history_scope import (
    RunIndex,
    VisibleRun,
    newest_of_each,
    select_by_inventory,
    select_host_of_types,
    select_runs,
)
from models.predictddl.observations import DENSE, DEPTHWISE, DISK, MEMORY, POINTWISE, Capabilities
from models.predictddl.systems import PREDICTDDL
from pipelines.service.contracts import Cluster, Nodes, Report
from profilers.clusters.node_types import GPU, node_group
from warehouse.inputs import Refusal
from warehouse.records import Backend, BadInput, NodeGroup, Scenario

_NOW = "@cluster"
"""Ends the name of a registered node's type: what is free of it now is not what was profiled."""


@dataclass(frozen=True)
class TrainingPlace:
    """Where workloads train.

    Attributes:
        groups: the nodes.
        measured: by node type and metric of probe `inventory`, what the history does not know.
        link_mbps: of their links; None: nobody said.
        devices: of each node that train: as many as were named, or its GPUs; one where it has none.
    """

    groups: tuple[NodeGroup, ...]
    measured: Mapping[str, Mapping[str, float]]
    link_mbps: float | None
    devices: int = 1

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes there are of each type."""
        return {group.node_type.removesuffix(_NOW): group.count for group in self.groups}


def of_types(nodes: Iterable[Nodes], link_mbps: float | None) -> TrainingPlace:
    """Return a place of nodes of types that the catalogue has.

    Raises:
        BadInput: there is no such type, their numbers of devices differ, or nobody told the speed
            of links between them.
    """
    counts: Counter[str] = Counter()
    devices: dict[str, int] = {}
    for node in nodes:
        counts[node.node_type] += node.count
        if devices.setdefault(node.node_type, node.devices_per_node) != node.devices_per_node:
            raise BadInput(f"{node.node_type} is named twice, with another devices_per_node each")
    if len(set(devices.values())) > 1:
        raise BadInput(
            "nodes that train together have equally many devices each (devices_per_node), found "
            f"{_listed(devices)}"
        )
    groups = tuple(node_group("worker", name, count) for name, count in counts.items())
    _check_link(groups, link_mbps)
    return TrainingPlace(groups, {}, link_mbps, max(devices.values()))


def of_cluster(cluster: Cluster, link_mbps: float | None) -> TrainingPlace:
    """Return a place of the nodes that have registered, on their slowest link if none is named.

    Nodes of one type are taken for alike: each can do what the least of them can. A type of nodes
    with GPUs is one that was profiled: what such a node tells of its processors says little.

    Raises:
        BadInput: none has registered, or their numbers of GPUs differ by type; or nodes with GPUs
            are of a type that nobody knows; or nobody told the speed of links between nodes.
    """
    if not cluster.nodes:
        raise BadInput(
            "no node has registered: name some under `nodes`, or run `stepcast node join` on them"
        )
    by_type: dict[str, list[Report]] = {}
    for node in cluster.nodes:
        by_type.setdefault(node.report.node_type, []).append(node.report)
    gpus = {name: min(node.gpus for node in reports) for name, reports in by_type.items()}
    if len(set(gpus.values())) > 1:
        raise BadInput(
            f"nodes that train together have equally many GPUs each, found {_listed(gpus)}; let "
            "some leave, or name others under `nodes`"
        )
    links = [node.report.link_mbps for node in cluster.nodes if node.report.link_mbps is not None]
    link_mbps = link_mbps or min(links, default=None)
    devices = max(gpus.values())
    if devices:
        groups = tuple(_with_gpus(name, len(reports)) for name, reports in by_type.items())
        _check_link(groups, link_mbps)
        return TrainingPlace(groups, {}, link_mbps, devices)
    free = [_free(name, reports) for name, reports in by_type.items()]
    measured = {group.node_type: rates for group, rates in free}
    groups = tuple(group for group, _ in free)
    _check_link(groups, link_mbps)
    return TrainingPlace(groups, measured, link_mbps)


def _check_link(groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
    """Refuse several nodes on links of a speed that nobody told.

    Raises:
        BadInput: saying where to tell it.
    """
    count = sum(group.count for group in groups)
    if count > 1 and link_mbps is None:
        raise BadInput(
            f"{count:,} nodes exchange gradients, and nobody told how fast their links are: give "
            "link_mbps"
        )


def _with_gpus(node_type: str, count: int) -> NodeGroup:
    """Return nodes with GPUs, as the catalogue declares them.

    Raises:
        BadInput: it does not; the message says what to do.
    """
    try:
        return node_group("worker", node_type, count)
    except BadInput:
        raise BadInput(
            f"nodes with GPUs are forecast from steps on their type, and {node_type} is no node "
            "type (`stepcast node-types`): `stepcast run` a study that trains on one, and let it "
            "join as the type that the study names (--type)"
        ) from None


def _free(node_type: str, reports: Sequence[Report]) -> tuple[NodeGroup, dict[str, float]]:
    """Return nodes without GPUs, and by metric what is free of each: what is of the least."""
    least = _least([node.available for node in reports])
    group = NodeGroup(
        role="worker",
        node_type=f"{node_type}{_NOW}",
        count=len(reports),
        cpu_share=least.cores,
        # PyTorch starts a thread for each core, whatever others do there.
        threads=max(int(min(node.cores for node in reports)), 1),
        memory_bytes=int(least.memory_bytes) or None,
    )
    rates = {
        DENSE: least.dense_flops,
        DEPTHWISE: least.depthwise_flops,
        MEMORY: least.memory_Bps,
        DISK: least.disk_Bps,
    }
    if all(node.pointwise_flops for node in reports):
        rates[POINTWISE] = least.pointwise_part * least.dense_flops
    return group, rates


def _listed(gpus: Mapping[str, int]) -> str:
    return ", ".join(f"{name} with {count}" for name, count in gpus.items())


def _least(several: Sequence[Capabilities]) -> Capabilities:
    names = Capabilities.model_fields
    return Capabilities(
        **{name: min(getattr(capabilities, name) for capabilities in several) for name in names}
    )


# Which runs of the history answer a question: of which backend and host, and of what.


_STEPS, _INVENTORY = "torch_throughput", "inventory"
"""Probes: steps of PyTorch, and what nodes can do."""


@dataclass(frozen=True)
class ForecastInputs:
    """What a forecast rests on.

    Attributes:
        backend: that the forecast is about.
        host_id: the same, of hosts.
        run_ids: steps and inventories, the newest first; those of other hosts are told apart.
    """

    backend: Backend
    host_id: str
    run_ids: tuple[str, ...]


def forecast_inputs(
    runs: Sequence[VisibleRun], place: TrainingPlace, scenario: Scenario
) -> ForecastInputs:
    """Return what forecasts rest on of nodes of a place.

    Nodes of named types are forecast from the backend and host that `stepcast predict` chooses,
    where a host with few steps is known by its inventory too, and steps of others count. What
    registered nodes without GPUs can do they tell themselves, so any steps on processors count:
    this host's, else the newest.

    Args:
        runs: that are visible, the newest first.
        place: where workloads train.
        scenario: one of them there.

    Raises:
        BadInput: no steps tell of such nodes, or those of some types are of other hosts.
    """
    names = {group.node_type for group in place.groups} - place.measured.keys()
    relevant = [
        run
        for run in runs
        if run.subject.probe in (_STEPS, _INVENTORY) and (names or not _on_gpus(run))
    ]
    steps = [run for run in relevant if run.subject.probe == _STEPS]
    if not steps:
        raise _lacking("")
    # Of places alike otherwise, one with steps goes before one with a newer inventory alone.
    inventories = [run for run in relevant if run.subject.probe == _INVENTORY] if names else []
    at = select_host_of_types([*steps, *inventories], names, {place.link_mbps})
    _check_together(at)
    on_backend = [run for run in relevant if run.backend == at.backend]
    on_host = [run for run in on_backend if run.host_id == at.host_id]
    selected = newest_of_each(on_host)
    if names:
        asks = PREDICTDDL.rests_on(scenario)
        assert not isinstance(asks, Refusal)
        index = RunIndex(on_host)
        elsewhere = RunIndex(run for run in on_backend if run.host_id != at.host_id)
        selected = select_by_inventory(asks, select_runs(asks, index), index, elsewhere).runs
    if not any(run.subject.probe == _STEPS for run in selected):
        raise _lacking(f" that tell of {', '.join(sorted(names))}")
    return ForecastInputs(at.backend, at.host_id, tuple(run.run_id for run in selected))


def _on_gpus(run: VisibleRun) -> bool:
    return any(name.startswith(GPU) for name in run.subject.worker_types)


def _check_together(at: Profiled) -> None:
    """Refuse node types of several hosts in one question.

    Raises:
        BadInput: naming one of them.
    """
    for name, (backend, host) in at.elsewhere:
        raise BadInput(
            f"{name} was measured on another host ({backend}, {host}) than the other node types "
            f"({at.backend}, {at.host_id}): ask about nodes of one host at a time"
        )


def _lacking(which: str) -> BadInput:
    return BadInput(
        f"no steps of PyTorch have been measured yet{which}; `stepcast run` a study that lists "
        "some under train"
    )
