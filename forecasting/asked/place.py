"""Whose runs answer a question: of which backend, and of which host."""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from forecasting.asked.runs import VisibleRun
from profilers.clusters import host_id
from profilers.clusters.fleet import BACKENDS, has_fleet
from profilers.clusters.node_types import fleet_types, node_group
from studies.curve import Curve
from warehouse.records import Backend, BadInput, Scenario


@dataclass(frozen=True)
class Place:
    """A backend and host; `is_here`: it is this host, or the fleet that this home knows.

    `elsewhere`: node types that are asked about and were never profiled there, each with the
    backend and host that have its newest runs; none where the host was named.
    """

    backend: Backend
    host_id: str
    is_here: bool
    elsewhere: "tuple[tuple[str, Where], ...]" = ()

    def in_words(self) -> Iterator[str]:
        """Yield what to tell whoever asked."""
        whose = "this host" if self.is_here else f"host {self.host_id}, which is not this one"
        yield f"Backend {self.backend}, {whose}."

    def lacks(self, scenario: Scenario) -> str | None:
        """Return why runs of this place say nothing of a scenario; None: they may."""
        types = {group.node_type for group in scenario.nodes}
        for name, (backend, host) in self.elsewhere:
            if name in types:
                return f"{name} was profiled on another host; --backend {backend} --host {host}"
        return None


Where = tuple[Backend, str]


def place_of(
    runs: Sequence[VisibleRun],
    curves: Sequence[Curve],
    backend: Backend | None,
    host: str | None = None,
) -> Place:
    """Return whose runs count.

    Hosts with runs of more of the node types that are asked about go first; then this host; then
    one with runs on links of the speeds that are asked about; then the one with the newest runs.

    Args:
        runs: that are visible, the newest first.
        curves: what is asked about; its node types are emulated ones, or of the fleet file.
        backend: None: the one of these runs.
        host: whose runs count; None: as above.

    Raises:
        BadInput: nothing has been profiled, there is no node type of a name on the backend, or the
            host has no runs.
    """
    names = {name for one in curves for name in (*one.worker, *filter(None, [one.server]))}
    return place_of_types(runs, names, {one.link_mbps for one in curves}, backend, host)


def place_of_types(
    runs: Sequence[VisibleRun],
    names: Set[str],
    speeds: Set[float | None],
    backend: Backend | None = None,
    host: str | None = None,
) -> Place:
    """Return whose runs count, as `place_of` does of curves.

    Args:
        runs: that are visible, the newest first.
        names: node types that are asked about; none: those of any backend will do.
        speeds: of links that are asked about.
        backend: as `place_of`.
        host: as `place_of`.

    Raises:
        BadInput: as `place_of`.
    """
    if not runs:
        raise BadInput("nothing has been profiled yet; run a study first, such as `make demo`")
    for name in sorted(names):
        node_group("worker", name, 1)
    of_fleet = bool(names & fleet_types().keys())
    if backend is not None and (backend in BACKENDS) != of_fleet:
        wrong = min(name for name in names if (name in fleet_types()) == of_fleet)
        raise BadInput(f"there are no nodes of type {wrong!r} on backend {backend}")
    found = [
        one
        for one in runs
        if (not names or (one.backend in BACKENDS) == of_fleet) and backend in (None, one.backend)
    ]
    profiled, links = _profiled(found)
    places = [one for one in profiled if host in (None, one[1])]
    if not places and host is None:
        there = backend or ("ssh" if of_fleet else "emulated")
        return Place(there, _here(there) or "", True)
    if not places:
        known = ", ".join(dict.fromkeys(one for _, one in profiled)) or "none"
        raise BadInput(f"--host: no runs of host {host!r}; hosts that have some: {known}")

    def fits(place: Where) -> tuple[int, bool, int]:
        return len(names & profiled[place]), is_here(place), len(speeds & links[place])

    chosen = max(places, key=fits)
    elsewhere = (
        (name, next((one for one, types in profiled.items() if name in types), None))
        for name in sorted(names - profiled[chosen] if host is None else ())
    )
    return Place(
        *chosen, is_here(chosen), tuple((name, one) for name, one in elsewhere if one is not None)
    )


def _profiled(
    runs: Sequence[VisibleRun],
) -> tuple[dict[Where, set[str]], dict[Where, set[float | None]]]:
    """Return the node types, and the speeds of links, that runs are about, by place."""
    types: dict[Where, set[str]] = {}
    speeds: dict[Where, set[float | None]] = {}
    for one in runs:
        where, about = (one.backend, one.host_id), one.subject
        nodes = () if about.scenario is None else about.scenario.nodes
        types.setdefault(where, set()).update(
            about.worker_types, (group.node_type for group in nodes)
        )
        speeds.setdefault(where, set()).add(about.link_mbps)
    return types, speeds


def is_here(place: Where) -> bool:
    """Tell whether a backend and host are this host, or the fleet that this home knows."""
    backend, host = place
    return host == _here(backend)


def _here(backend: Backend) -> str | None:
    """Return what this host's runs are told apart by, None of a fleet that is not here."""
    return host_id(backend) if backend not in BACKENDS or has_fleet() else None
