"""Which runs of the history answer a question: of which backend and host, and of what."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecasting.asked.place import Place as Profiled
from forecasting.asked.place import place_of_types
from forecasting.asked.runs import VisibleRun, described, met, newest_of_each
from models.predictddl.systems import PREDICTDDL
from pipelines.service.places import Place
from profilers.clusters.node_types import GPU
from warehouse.asks import Refusal
from warehouse.records import Backend, BadInput, Scenario

_STEPS, _INVENTORY = "torch_throughput", "inventory"
"""Probes: steps of PyTorch, and what nodes can do."""


@dataclass(frozen=True)
class Rests:
    """What a forecast rests on.

    Attributes:
        backend: that the forecast is about.
        host_id: the same, of hosts.
        run_ids: steps and inventories, the newest first; those of other hosts are told apart.
    """

    backend: Backend
    host_id: str
    run_ids: tuple[str, ...]


def rests_of(runs: Sequence[VisibleRun], place: Place, scenario: Scenario) -> Rests:
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
    ours = [
        run
        for run in runs
        if run.subject.probe in (_STEPS, _INVENTORY) and (names or not _on_gpus(run))
    ]
    steps = [run for run in ours if run.subject.probe == _STEPS]
    if not steps:
        raise _lacking("")
    # Of places alike otherwise, one with steps goes before one with a newer inventory alone.
    inventories = [run for run in ours if run.subject.probe == _INVENTORY] if names else []
    at = place_of_types([*steps, *inventories], names, {place.link_mbps})
    _check_together(at)
    on_backend = [run for run in ours if run.backend == at.backend]
    here = [run for run in on_backend if run.host_id == at.host_id]
    found = newest_of_each(here)
    if names:
        asks = PREDICTDDL.rests_on(scenario)
        assert not isinstance(asks, Refusal)
        elsewhere = [run for run in on_backend if run.host_id != at.host_id]
        found = described(asks, met(asks, here), here, elsewhere).runs
    if not any(run.subject.probe == _STEPS for run in found):
        raise _lacking(f" that tell of {', '.join(sorted(names))}")
    return Rests(at.backend, at.host_id, tuple(run.run_id for run in found))


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
