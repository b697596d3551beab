"""What each round of a study needs measured: the asks of its systems, met by needs of probes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from profilers.probe import PlannedRun, Probe, RequestedScenarios
from profilers.probes import PROBES, measuring_probe
from profilers.scenarios import single_worker_scenarios
from studies.curve import Curve
from studies.study import Study
from warehouse.records import Backend, NodeGroup, Scenario, error_context
from warehouse.requirements import Requirement


@dataclass(frozen=True)
class SystemInputs:
    """What the chosen systems ask for.

    Attributes:
        systems: their names.
        of: returns what they ask for to forecast a scenario.
    """

    systems: tuple[str, ...]
    of: Callable[[Scenario], Iterable[Requirement]]


def required_runs(study: Study, backend: Backend, asking: SystemInputs) -> tuple[PlannedRun, ...]:
    """Return the runs that each round of a study needs, in the order in which they are run.

    Profiles come before what they are to forecast. What is asked for by several systems, or is of
    train and test scenarios both, is needed once; fits may then see it. What judges forecasts is
    always a run of its own, which no fit sees.

    Raises:
        BadInput: settings of a probe cannot work.
    """
    wanted = requested_scenarios(study, backend, asking)
    by_subject: dict[object, PlannedRun] = {}
    for name, requested in wanted.items():
        with error_context(f"probes.{name}"):
            for need in PROBES[name].needs(requested, study.settings_of(name)):
                judges = PROBES[name].metric is not None and not need.profiles
                earlier = by_subject.get((need.subject, judges))
                if earlier is None or (need.of_train and not earlier.of_train):
                    by_subject[need.subject, judges] = need
    in_order = sorted(by_subject.values(), key=lambda need: need.purpose == "measurement")
    return tuple(_with_distinct_titles(in_order))


def _with_distinct_titles(needed: Sequence[PlannedRun]) -> Iterator[PlannedRun]:
    """Yield needs whose titles differ: where several share one, it names what tells them apart."""
    counts = Counter(need.title for need in needed)
    for need in needed:
        nodes = " + ".join(f"{group.count} {group.node_type}" for group in need.nodes)
        title = f"{need.title} ({need.probe} as a {need.purpose} on {nodes})"
        yield replace(need, title=title) if counts[need.title] > 1 else need


def group_by_start(some: Sequence[PlannedRun]) -> Iterator[list[PlannedRun]]:
    """Yield needs that one start of programs measures: of one probe and purpose, in their order."""
    groups: dict[object, list[PlannedRun]] = {}
    for need in some:
        own = need.subject if need.start is None else need.start
        groups.setdefault((need.probe, need.purpose, own), []).append(need)
    yield from groups.values()


def expected_s(start: Sequence[PlannedRun]) -> float:
    """Return about how many seconds needs of one start take."""
    return start[0].start_s + sum(need.expected_s for need in start)


def nodes_of(start: Sequence[PlannedRun]) -> tuple[NodeGroup, ...]:
    """Return the nodes of the cluster that measures needs of one start: those of the largest."""
    return max((need.nodes for need in start), key=lambda nodes: sum(node.count for node in nodes))


class ProfiledLinks(Protocol):
    """What is asked about, and the links that it is profiled on: a curve of a study, say."""

    def link_speeds(self, backend: Backend) -> tuple[float | None, ...]:
        """Return the speeds of the links it is profiled on and trains on, Mb/s."""

    def on_profiled_link(self, scenario: Scenario, backend: Backend) -> Scenario:
        """Return a scenario of one worker on the links that it is profiled on."""


def resolve_requirement(
    requirement: Requirement, curve: ProfiledLinks, backend: Backend
) -> tuple[Requirement, ...]:
    """Return what an ask is where a curve is profiled on links of its own.

    Own scenarios are on the links of the profile; of clusters both speeds are asked for.
    """
    if requirement.scope == "own":
        return (
            replace(requirement, scenario=curve.on_profiled_link(requirement.scenario, backend)),
        )
    if requirement.scope in ("train", "public"):
        return (requirement,)
    speeds = curve.link_speeds(backend)
    return tuple(
        replace(requirement, scenario=requirement.scenario.model_copy(update={"link_mbps": speed}))
        for speed in speeds
    )


@dataclass
class _ProbeRequest:
    """What is asked of one probe so far; whether anybody cannot do without."""

    own: dict[Scenario, None] = field(default_factory=dict)
    cluster: dict[Scenario, None] = field(default_factory=dict)
    of_train: bool = False
    required: bool = False


def requested_scenarios(
    study: Study, backend: Backend, asking: SystemInputs
) -> Mapping[str, RequestedScenarios]:
    """Return what is asked of each probe that runs, in the order in which probes run."""
    if study.only_profiles:
        return {
            name: _all_of(study, backend, PROBES[name]) for name in PROBES if name in study.probes
        }
    by_probe: dict[str, _ProbeRequest] = defaultdict(_ProbeRequest)
    tests = _scenarios(study, backend, judged=True)
    trains = _scenarios(study, backend, judged=False)
    for curve in study.curves:
        for scenario in curve.scenarios(backend) if curve.is_judged else ():
            for requirement in asking.of(scenario):
                wanted = by_probe[requirement.probe]
                wanted.required |= not requirement.optional
                wanted.of_train |= requirement.scope == "train"
                if requirement.scope in ("own", "cluster"):
                    scenarios = wanted.own if requirement.scope == "own" else wanted.cluster
                    scenarios |= {
                        planned.scenario: None
                        for planned in resolve_requirement(requirement, curve, backend)
                    }
    requested = {}
    for name, probe in PROBES.items():
        of_probe = probe.concerns if probe.metric is None else partial(_judges, probe)
        test = tuple(filter(of_probe, tests))
        judges = probe.metric is not None and bool(test)
        wanted = by_probe.get(name, _ProbeRequest())
        is_named = name in study.probes and name in by_probe
        if not (judges or wanted.required or is_named):
            continue
        train = tuple(train for train in trains if probe.concerns(train)) if wanted.of_train else ()
        requested[name] = RequestedScenarios(tuple(wanted.own), tuple(wanted.cluster), train, test)
    return requested


def _all_of(study: Study, backend: Backend, probe: Probe) -> RequestedScenarios:
    """Return all that a probe can tell of train scenarios: what systems could ask it for."""
    scenarios_of = [
        (curve, scenario)
        for curve in study.curves
        for scenario in curve.scenarios(backend)
        if probe.concerns(scenario)
    ]
    scenarios = tuple(dict.fromkeys(scenario for _, scenario in scenarios_of))
    # What is measured of whole scenarios is of the ones that are listed, as they are.
    alike = scenarios_of if probe.metric is None else ()
    own = (single for curve, scenario in alike for single in _own(curve, scenario, backend))
    return RequestedScenarios(own=tuple(dict.fromkeys(own)), cluster=scenarios, train=scenarios)


def _own(curve: Curve, scenario: Scenario, backend: Backend) -> tuple[Scenario, ...]:
    """Return one worker of each type, as forecasts of a scenario would ask for it."""
    if not scenario.strategy.has_servers:
        return single_worker_scenarios(scenario)
    return (curve.profiled(backend),)


def _judges(probe: Probe, scenario: Scenario) -> bool:
    return measuring_probe(scenario) is probe


def _scenarios(study: Study, backend: Backend, *, judged: bool) -> tuple[Scenario, ...]:
    curves = (curve for curve in study.curves if curve.is_judged == judged)
    return tuple(
        dict.fromkeys(scenario for curve in curves for scenario in curve.scenarios(backend))
    )
