"""Which runs answer a question: those of a backend and host that meet what a forecast asks."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from json import loads
from operator import attrgetter, itemgetter
from typing import NamedTuple

from models.predictddl.training_set import are_enough
from profilers.clusters import host_id
from profilers.clusters.fleet import BACKENDS, find_fleet
from profilers.clusters.node_types import fleet_types, node_group
from studies.curve import Curve
from warehouse.records import Backend, BadInput, Scenario
from warehouse.requirements import Requirement, Subject, meets_requirement
from warehouse.warehouse import Warehouse

_TOLD_APART_BY = ("worker", "devices_per_node", "world_size")
"""What the config of a run about nodes names; the rest of it is how they were measured."""
Round = tuple[str, int]
"""A study and the number of a round."""


class VisibleRun(NamedTuple):
    """A profile run that predictors may see, and what it is about."""

    run_id: str
    subject: Subject
    round: Round
    backend: Backend
    host_id: str
    started_at: datetime

    @property
    def exchanges(self) -> bool:
        """Whether it is of several devices: training, or an all-reduce."""
        scenario = self.subject.scenario
        if scenario is None:
            return "world_size" in self.subject.config
        return scenario.strategy.workers * scenario.strategy.devices_per_node > 1

    @property
    def key(self) -> object:
        """What runs share of which the newest counts."""
        about = self.subject
        if self.backend == "imported":
            return self.run_id
        if about.scenario is not None:
            return self.host_id, about.probe, about.scenario
        config = tuple(sorted(about.config.items()))
        return self.host_id, about.probe, about.link_mbps, config


Runs = tuple[VisibleRun, ...]
"""Runs that a forecast rests on, the newest first."""


def visible_runs(
    warehouse: Warehouse, known_by: datetime | None = None, *, public: bool = False
) -> tuple[VisibleRun, ...]:
    """Return all runs of ours that fits may rest on, the newest first; `public`: those of others.

    Those that started after `known_by` are left out, and those that only correct forecasts.
    """
    when = None if known_by is None else known_by.isoformat()
    rows = warehouse.query("inputs", known_by=when, public="yes" if public else "no")
    about = ["probe", "config", "canonical"]
    # A study repeats what its runs are about: of thousands of runs few subjects are made.
    subjects = rows.select(about).unique(maintain_order=True).with_row_index("subject")
    places = rows.join(subjects, on=about, how="left", nulls_equal=True, maintain_order="left")
    made = [_subject(*row) for row in subjects.select(about).iter_rows()]
    run_ids, numbers, studies, repeats, backends, hosts, starts = (
        places[name].to_list()
        for name in ("run_id", "subject", "study", "repeat", "backend", "host_id", "started_at")
    )
    rounds = zip(studies, repeats, strict=True)
    columns = zip(
        run_ids, map(made.__getitem__, numbers), rounds, backends, hosts, starts, strict=True
    )
    return tuple(map(VisibleRun._make, columns))


class RunIndex:
    """Visible runs, the newest first, by what they are about: few subjects have many runs each."""

    def __init__(self, runs: Iterable[VisibleRun]) -> None:
        self._by_subject: dict[int, tuple[Subject, list[tuple[int, VisibleRun]]]] = {}
        for place, run in enumerate(runs):
            _, of_subject = self._by_subject.setdefault(id(run.subject), (run.subject, []))
            of_subject.append((place, run))
        self._serving: dict[Hashable, list[VisibleRun]] = {}

    def about(self, accepts: Callable[[Subject], bool]) -> list[VisibleRun]:
        """Return the runs whose subject is accepted, the newest first."""
        placed = [
            run for subject, runs in self._by_subject.values() if accepts(subject) for run in runs
        ]
        return [run for _, run in sorted(placed, key=itemgetter(0))]

    def serving(self, requirement: Requirement) -> list[VisibleRun]:
        """Return the runs that are what is asked for, the newest first."""
        key: Hashable = requirement
        if requirement.scope in ("train", "public"):  # whatever else is forecast
            training = None if requirement.any_training else requirement.scenario.training
            key = requirement.probe, training
        if key not in self._serving:
            self._serving[key] = self.about(lambda subject: _serves(subject, requirement))
        return self._serving[key]


def select_runs(
    requirements: Sequence[Requirement], runs: RunIndex
) -> tuple[Runs, tuple[Requirement, ...]]:
    """Return the runs that meet what a forecast asks for, and what none meets.

    Of asks about neither `train` scenarios nor public measurements the newest round counts that
    meets all which are not optional, so that days are not mixed. Where no round does, each ask is
    met by the newest round that can. Of runs about the same thing the newest counts.

    Args:
        requirements: as a system makes them, on the links of profiles.
        runs: that are visible, of one backend and host.
    """
    anywhere = [
        requirement for requirement in requirements if requirement.scope in ("train", "public")
    ]
    others = [
        requirement for requirement in requirements if requirement.scope not in ("train", "public")
    ]
    needed = [requirement for requirement in others if not requirement.optional]
    serving = {requirement: runs.serving(requirement) for requirement in requirements}
    rounds = _shared([[run.round for run in serving[requirement]] for requirement in needed])
    selected: list[VisibleRun] = []
    for requirement in others:
        matching = serving[requirement]
        of_round = rounds[0] if rounds else next((run.round for run in matching), None)
        if rounds or not requirement.optional:
            selected += [run for run in matching if run.round == of_round]
    for requirement in anywhere:
        selected += serving[requirement]
    lacking = tuple(
        requirement
        for requirement in requirements
        if not requirement.optional and not serving[requirement]
    )
    return newest_of_each(selected), lacking


def select_by_inventory(
    requirements: Sequence[Requirement],
    selected: Runs,
    lacking: tuple[Requirement, ...],
    runs: RunIndex,
    elsewhere: RunIndex,
) -> tuple[Runs, tuple[Requirement, ...]]:
    """Return what a forecast rests on whose system knows nodes by what they can do.

    Steps of `train` scenarios count with the inventories of their nodes and of the nodes that are
    asked about. Where this host has few such steps, those of other hosts count too, but only on
    nodes of which that host has an inventory; then this host has to have one as well.

    Args:
        requirements: as of `select_runs`; those of a `cluster` are of inventories.
        selected: what meets them here.
        lacking: those that nothing here meets.
        runs: visible runs of this host.
        elsewhere: visible runs of the backend's other hosts.
    """
    of_steps = {requirement.probe for requirement in requirements if requirement.scope == "train"}
    of_nodes = [requirement for requirement in requirements if requirement.scope == "cluster"]
    inventories = {requirement.probe for requirement in of_nodes}
    types = {
        worker_group.node_type
        for requirement in of_nodes
        for worker_group in requirement.scenario.worker_groups
    }
    own_inventories = runs.about(lambda subject: subject.probe in inventories)
    other_inventories = elsewhere.about(lambda subject: subject.probe in inventories)
    inventoried = {node_type for run in own_inventories for node_type in run.subject.worker_types}
    steps = [run for run in selected if run.subject.probe in of_steps]
    known = set[tuple[str, str]]().union(*map(_nodes, other_inventories))
    others = elsewhere.about(lambda subject: subject.probe in of_steps)
    others = _on_known_nodes(others, known)
    trained = [run.subject.scenario for run in steps if run.subject.scenario is not None]
    if are_enough(trained) or (steps and not types <= inventoried):
        others = []
    elif others:
        # What nodes without an inventory can do is a guess, which would look like a difference.
        guessed = [run for run in steps if not run.subject.worker_types <= inventoried]
        selected = tuple(run for run in selected if run not in guessed)
    if not steps and not others:
        return selected, lacking
    wanted = types.union(*(run.subject.worker_types for run in steps))
    nodes = set[tuple[str, str]]().union(*map(_nodes, others))
    own = [run for run in own_inventories if run.subject.worker_types <= wanted]
    other_inventories = _on_known_nodes(other_inventories, nodes)
    needed = [requirement for requirement in lacking if requirement.scope != "train"]
    needed += of_nodes if others and not types <= inventoried else []
    chosen = newest_of_each([*selected, *own, *others, *other_inventories])
    return chosen, tuple(dict.fromkeys(needed))


def _on_known_nodes(runs: Sequence[VisibleRun], known: Set[tuple[str, str]]) -> list[VisibleRun]:
    """Return the runs whose nodes are all known; those of a host and subject are told at once."""
    of_each = {(run.host_id, id(run.subject)): run for run in runs}
    accepted = {key for key, run in of_each.items() if _nodes(run) <= known}
    return [run for run in runs if (run.host_id, id(run.subject)) in accepted]


def _nodes(run: VisibleRun) -> set[tuple[str, str]]:
    return {(run.host_id, node_type) for node_type in run.subject.worker_types}


def newest_of_each(runs: Iterable[VisibleRun]) -> tuple[VisibleRun, ...]:
    """Return the newest run about each thing, the newest first."""
    by_key: dict[object, VisibleRun] = {}
    for run in sorted(runs, key=attrgetter("started_at", "run_id"), reverse=True):
        by_key.setdefault(run.key, run)
    return tuple(by_key.values())


def _shared(rounds: Sequence[Sequence[Round]]) -> list[Round]:
    """Return the rounds that are in every list, in the order of the first."""
    first, *others = rounds or [[]]
    return [round_ for round_ in first if all(round_ in several for several in others)]


def _serves(subject: Subject, requirement: Requirement) -> bool:
    """Tell whether a run is what is asked for; of nodes, with as many devices each."""
    if not meets_requirement(subject, requirement):
        return False
    each = subject.config.get("devices_per_node")
    return requirement.scope != "cluster" or each in (
        None,
        requirement.scenario.strategy.devices_per_node,
    )


def _subject(probe: str, config: str, canonical: str | None) -> Subject:
    if canonical is not None:
        scenario = Scenario.model_validate_json(canonical)
        return Subject(probe, scenario, scenario.link_mbps)
    settings = loads(config)
    speed = settings.get("link_mbps")
    return Subject(probe, None, None if speed is None else float(speed), dict(_known(settings)))


def _known(config: Mapping[str, str | int | float | None]) -> Iterator[tuple[str, str | int]]:
    for name in _TOLD_APART_BY:
        value = config.get(name)
        if isinstance(value, str | int):
            yield name, value


@dataclass(frozen=True)
class HostSelection:
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
        scope = "this host" if self.is_here else f"host {self.host_id}, which is not this one"
        yield f"Backend {self.backend}, {scope}."

    def lacks(self, scenario: Scenario) -> str | None:
        """Return why runs of this place say nothing of a scenario; None: they may."""
        for name, (backend, host) in self.elsewhere:
            if any(group.node_type == name for group in scenario.nodes):
                return f"{name} was profiled on another host; --backend {backend} --host {host}"
        return None


Where = tuple[Backend, str]


def select_host(
    runs: Sequence[VisibleRun],
    curves: Sequence[Curve],
    backend: Backend | None,
    host: str | None = None,
) -> HostSelection:
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
    names = {name for curve in curves for name in (*curve.worker, *filter(None, [curve.server]))}
    return select_host_of_types(runs, names, {curve.link_mbps for curve in curves}, backend, host)


def select_host_of_types(
    runs: Sequence[VisibleRun],
    names: Set[str],
    speeds: Set[float | None],
    backend: Backend | None = None,
    host: str | None = None,
) -> HostSelection:
    """Return whose runs count, as `select_host` does of curves, for node types and link speeds.

    Without node types, those of any backend will do.
    """
    if not runs:
        raise BadInput("nothing has been profiled yet; run a study first, such as `make demo`")
    for name in sorted(names):
        node_group("worker", name, 1)
    of_fleet = bool(names & fleet_types().keys())
    if backend is not None and (backend in BACKENDS) != of_fleet:
        wrong = min(name for name in names if (name in fleet_types()) == of_fleet)
        raise BadInput(f"there are no nodes of type {wrong!r} on backend {backend}")
    candidates = [
        run
        for run in runs
        if (not names or (run.backend in BACKENDS) == of_fleet) and backend in (None, run.backend)
    ]
    profiled, links = _profiled(candidates)
    places = [place for place in profiled if host in (None, place[1])]
    if not places and host is None:
        wanted_backend = backend or ("ssh" if of_fleet else "emulated")
        return HostSelection(wanted_backend, _here(wanted_backend) or "", True)
    if not places:
        known = ", ".join(dict.fromkeys(place for _, place in profiled)) or "none"
        raise BadInput(f"--host: no runs of host {host!r}; hosts that have some: {known}")

    def fits(place: Where) -> tuple[int, bool, int]:
        return len(names & profiled[place]), is_here(place), len(speeds & links[place])

    chosen = max(places, key=fits)
    elsewhere = (
        (name, next((place for place, types in profiled.items() if name in types), None))
        for name in sorted(names - profiled[chosen] if host is None else ())
    )
    return HostSelection(
        *chosen,
        is_here(chosen),
        tuple((name, place) for name, place in elsewhere if place is not None),
    )


def host_here() -> HostSelection:
    """Return this host, where nothing of ours was profiled anywhere."""
    return HostSelection("loopback", _here("loopback") or "", True)


def _profiled(
    runs: Sequence[VisibleRun],
) -> tuple[dict[Where, set[str]], dict[Where, set[float | None]]]:
    """Return the node types, and the speeds of links, that runs are about, by place."""
    types: dict[Where, set[str]] = {}
    speeds: dict[Where, set[float | None]] = {}
    by_subject = {(run.backend, run.host_id, id(run.subject)): run for run in runs}
    for run in by_subject.values():
        where, about = (run.backend, run.host_id), run.subject
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
    if backend in BACKENDS:
        fleet = find_fleet()
        if fleet is None or not (fleet.ec2 if backend == "ec2" else fleet.machines):
            return None
    return host_id(backend)
