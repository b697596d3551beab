"""Whose runs answer a question: of which backend, and of which host."""

from collections.abc import Sequence
from dataclasses import dataclass

from forecasting.asked.runs import VisibleRun
from profilers.clusters import host_id
from profilers.clusters.fleet import BACKENDS, has_fleet
from profilers.clusters.node_types import fleet_types, node_group
from studies.curve import Curve
from warehouse.records import Backend, BadInput


@dataclass(frozen=True)
class Place:
    """A backend and host; `is_here`: it is this host, or the fleet that this home knows."""

    backend: Backend
    host_id: str
    is_here: bool


def place_of(runs: Sequence[VisibleRun], curves: Sequence[Curve], backend: Backend | None) -> Place:
    """Return whose runs count: this host's, or the newest if it has none.

    Args:
        runs: that are visible, the newest first.
        curves: what is asked about; its node types are emulated ones, or of the fleet file.
        backend: None: the one of the newest of these runs.

    Raises:
        BadInput: nothing has been profiled, or there is no node type of a name on the backend.
    """
    if not runs:
        raise BadInput("nothing has been profiled yet; run a study first, such as `make demo`")
    names = {name for one in curves for name in (*one.worker, *filter(None, [one.server]))}
    for name in sorted(names):
        node_group("worker", name, 1)
    of_fleet = bool(names & fleet_types().keys())
    possible = [one for one in runs if (one.backend in BACKENDS) == of_fleet]
    found = [one for one in possible if backend in (None, one.backend)]
    if backend is not None and (backend in BACKENDS) != of_fleet:
        wrong = min(name for name in names if (name in fleet_types()) == of_fleet)
        raise BadInput(f"there are no nodes of type {wrong!r} on backend {backend}")
    places = dict.fromkeys((one.backend, one.host_id) for one in found)
    for where, host in places:
        if host == _here(where):
            return Place(where, host, True)
    if places:
        where, host = next(iter(places))
        return Place(where, host, False)
    there = backend or ("ssh" if of_fleet else "emulated")
    return Place(there, _here(there) or "", True)


def _here(backend: Backend) -> str | None:
    """Return what this host's runs are told apart by, None of a fleet that is not here."""
    return host_id(backend) if backend not in BACKENDS or has_fleet() else None
