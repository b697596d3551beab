"""Inputs of forecasts: systems of a study, runs that these rest on, and runs that are missing."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from models.profiled_run import refusal
from models.system import System
from models.systems import SYSTEMS
from profilers.links.probe import link_in_words
from profilers.probe import PlannedRun, RequestedScenarios
from profilers.probes import PROBES
from profilers.scenarios import single_worker_scenarios
from studies.curve import Curve
from studies.planned_runs import SystemInputs, expected_s, group_by_start, resolve_requirement
from studies.rounds import Round
from studies.study import Study
from warehouse.records import Backend, BadInput, Scenario, on_images
from warehouse.requirements import Refusal, Requirement, meets_requirement

InputRuns = Mapping[Scenario, tuple[PlannedRun, ...] | Refusal]
"""By scenario, the runs that a forecast rests on, or why there is none."""


def input_runs_by_scenario(
    system: System,
    curve: Curve,
    needed: Sequence[PlannedRun],
    backend: Backend,
    learns_from: Collection[str],
) -> InputRuns:
    """Return what a system's forecast of each scenario of a curve rests on.

    Args:
        system: that forecasts.
        curve: one of a study.
        needed: what a round of the study needs; found needs keep its order.
        backend: where it is measured.
        learns_from: other studies, whose train scenarios do for systems that travel.
    """
    learns = system.transfers_across_hosts and bool(learns_from)
    profiles = [need for need in needed if need.profiles]
    # The scenarios of a curve share most of what they rest on.
    met: dict[Requirement, list[PlannedRun] | Refusal] = {}
    of_inputs: dict[tuple[Requirement, ...], tuple[PlannedRun, ...] | Refusal] = {}
    by_scenario: dict[Scenario, tuple[PlannedRun, ...] | Refusal] = {}
    for scenario in curve.scenarios(backend):
        requirements = system.requires(scenario)
        if isinstance(requirements, Refusal):
            by_scenario[scenario] = requirements
            continue
        if (inputs := tuple(requirements)) not in of_inputs:
            for requirement in inputs:
                if requirement not in met:
                    met[requirement] = _select_planned_runs(
                        requirement, curve, profiles, backend, learns
                    )
            planned = [met[requirement] for requirement in inputs]
            refused = next((runs for runs in planned if isinstance(runs, Refusal)), None)
            of_inputs[inputs] = refused or in_order(planned, profiles)
        by_scenario[scenario] = of_inputs[inputs]
    return by_scenario


def input_runs_of_curve(
    system: System,
    curve: Curve,
    needed: Sequence[PlannedRun],
    backend: Backend,
    learns_from: Collection[str],
) -> tuple[PlannedRun, ...]:
    """Return all of a study that a system's forecasts of a curve rest on."""
    return in_order(
        input_runs_by_scenario(system, curve, needed, backend, learns_from).values(), needed
    )


def input_runs_by_system(
    systems: Iterable[System], study: Study, needed: Sequence[PlannedRun], backend: Backend
) -> dict[System, tuple[PlannedRun, ...]]:
    """Return all of a study that each system's forecasts rest on.

    Systems that refuse all test scenarios are left out; those that only learn from other studies,
    or from public measurements, rest on nothing of this one.
    """
    judged = [curve for curve in study.curves if curve.is_judged]
    by_system = {}
    for system in systems:
        by_curve = (
            input_runs_of_curve(system, curve, needed, backend, study.learns_from)
            for curve in judged
        )
        all_of_it = in_order(by_curve, needed)
        learns = system.transfers_across_hosts and study.learns_from
        if all_of_it or learns or any(requires_public(system, curve, backend) for curve in judged):
            by_system[system] = all_of_it
    return by_system


def requires_public(system: System, curve: Curve, backend: Backend) -> bool:
    """Tell whether a system's forecasts of a curve rest on public measurements."""
    return any(each.scope == "public" for each in _requirements(system, curve, backend))


def input_probes(system: System, curve: Curve, backend: Backend) -> set[str]:
    """Return the probes whose runs a system's forecasts of a curve rest on."""
    return {each.probe for each in _requirements(system, curve, backend)}


def _requirements(system: System, curve: Curve, backend: Backend) -> Iterator[Requirement]:
    requirements = inputs_of_systems([system]).of
    return chain.from_iterable(map(requirements, curve.scenarios(backend)))


def profiled_curves(round_: Round, systems: Sequence[System]) -> Round | None:
    """Return a round with only the curves that have been profiled, None if no test curve has.

    Of a train curve everything has been measured. Of a test curve there is all that its forecasts
    rest on but train curves, or at least one measurement if they rest on nothing else.
    """
    curves = [curve for curve in round_.study.curves if _is_profiled(round_, curve, systems)]
    if not any(curve.is_judged for curve in curves):
        return None
    return replace(round_, study=round_.study.with_curves(curves))


def _is_profiled(round_: Round, curve: Curve, systems: Sequence[System]) -> bool:
    backend, needs = round_.backend, round_.needs
    if curve.is_judged:
        own = {
            need: round_.run_of(need) is not None
            for system in systems
            for need in input_runs_of_curve(system, curve, needs, backend, round_.study.learns_from)
            if not need.of_train
        }
        if own:
            return all(own.values())
    subjects = set(curve.scenarios(backend)).union(
        *map(single_worker_scenarios, curve.scenarios(backend))
    )
    landed = [
        round_.run_of(need) is not None
        for need in needs
        if need.subject.scenario in subjects and need.of_train != curve.is_judged
    ]
    return any(landed) if curve.is_judged else all(landed)


def in_order(
    selected: Iterable[Sequence[PlannedRun] | Refusal], needed: Sequence[PlannedRun]
) -> tuple[PlannedRun, ...]:
    """Return each need once, as needed; refusals rest on nothing. What is found is of `needed`."""
    # By identity: a need is hashed with its whole scenario, and lineage asks for thousands.
    several = {id(runs): runs for runs in selected if not isinstance(runs, Refusal)}
    wanted = {id(need) for runs in several.values() for need in runs}
    return tuple(need for need in needed if id(need) in wanted)


def _select_planned_runs(
    requirement: Requirement,
    curve: Curve,
    profiles: Sequence[PlannedRun],
    backend: Backend,
    learns: bool,
) -> list[PlannedRun] | Refusal:
    """Return the runs that meet an ask, in a study that profiles a curve on links of its own."""
    if requirement.scope == "public":
        return []  # They are of no study: fits read what the history has (`forecasting.fits`).
    requirements = resolve_requirement(requirement, curve, backend)
    if requirement.on_its_link and (
        reason := refusal(requirements[0].scenario, requirement.scenario)
    ):
        return Refusal(reason)
    needs = [
        need
        for need in profiles
        if need.probe == requirement.probe
        and any(meets_requirement(need.subject, requirement) for requirement in requirements)
        and (need.of_train or requirement.scope != "train")
    ]
    if requirement.switched_on and not all(
        need.settings.get(requirement.switched_on) for need in needs
    ):
        return Refusal(
            f"it rests on {requirement.probe}: {{{requirement.switched_on}: true}}, and the study "
            "has it without"
        )
    if learns and requirement.scope == "cluster" and not needs:
        return Refusal(
            f"it learns from other hosts, and knows nodes by {requirement.probe}; name that under "
            "probes"
        )
    if needs or requirement.optional or (learns and requirement.scope == "train"):
        return needs
    of = "train scenario" if requirement.scope == "train" else "run"
    return Refusal(
        f"the study has no {of} of {requirement.probe} that it could learn from", foreign=True
    )


# The systems that a study chooses, and what they ask for.


def systems_of(study: Study) -> tuple[System, ...]:
    """Return the systems that a study names, all that need no naming if it names none.

    Raises:
        BadInput: there is no system of a name.
    """
    return systems_named(study.systems)


def systems_named(names: Sequence[str]) -> tuple[System, ...]:
    """Return the systems of these names, all that need no naming if there is no name.

    Raises:
        BadInput: there is no system of a name.
    """
    known = {system.name: system for system in SYSTEMS}
    if unknown := [name for name in names if name not in known]:
        raise BadInput(f"systems: no system {unknown[0]!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names) or tuple(
        system for system in SYSTEMS if not system.only_named
    )


def inputs_of_systems(systems: Sequence[System]) -> SystemInputs:
    """Return what tells what these systems ask for; refusals ask for nothing."""

    def requirements(scenario: Scenario) -> Iterator[Requirement]:
        for system in systems:
            rests = system.requires(scenario)
            if not isinstance(rests, Refusal):
                yield from rests

    return SystemInputs(tuple(system.name for system in systems), requirements)


def inputs_of_study(study: Study) -> SystemInputs:
    """Return what tells what the systems of a study ask for."""
    return inputs_of_systems(systems_of(study))


def primary_systems(study: Study) -> tuple[str, ...]:
    """Return the names of a study's systems that reports are about; of all, where there is none.

    Of a scenario that several forecast, reports show the first; of one that all of them refuse,
    none: what stands beside them does not stand in for them.
    """
    systems = systems_of(study)
    about = [system.name for system in systems if system.beside]
    return tuple(about or (system.name for system in systems))


def baselines() -> tuple[str, ...]:
    """Return the names of the systems that these stand beside, each once."""
    return tuple(dict.fromkeys(system.beside for system in SYSTEMS if system.beside))


def baseline_in_words(study: Study) -> str:
    """Return what forecasts of a study stand beside, as figures and tables name it.

    That is the baseline of the first system that forecasts its first test scenario.
    """
    scenario = study.test[0][0].scenarios("loopback")[0]
    for system in systems_of(study):
        if system.beside and not isinstance(system.requires(scenario), Refusal):
            return next(other.in_words for other in SYSTEMS if other.name == system.beside)
    return "linear scaling"


@dataclass(frozen=True)
class MissingRuns:
    """Runs of a probe that nobody has measured.

    Attributes:
        probe: its name.
        of: of what, in words.
        minutes: that they take with the probe's own settings, about; None: not known.
        of_train: they are about other scenarios than the one that was asked for.
    """

    probe: str
    of: str
    minutes: float | None
    of_train: bool = False

    @property
    def text(self) -> str:
        """The probe, and of what."""
        return f"{self.probe} of {self.of}"


def find_missing_runs(requirements: Sequence[Requirement]) -> tuple[MissingRuns, ...]:
    """Return what to measure for asks that no run meets, each once."""
    return tuple(dict.fromkeys(_lacking(requirement) for requirement in requirements))


def total_minutes(some: Iterable[MissingRuns]) -> float | None:
    """Return about how many minutes all of them take, None if that is not known of one."""
    total = 0.0
    for missing in dict.fromkeys(some):
        if missing.minutes is None:
            return None
        total += missing.minutes
    return total


@lru_cache(maxsize=4096)  # hundreds of scenarios lack the same
def _lacking(requirement: Requirement) -> MissingRuns:
    if requirement.scope == "public":
        return MissingRuns("public measurements", "GPUs: `stepcast load public`", None)
    return MissingRuns(
        requirement.probe, _of(requirement), _minutes(requirement), requirement.scope == "train"
    )


def _of(requirement: Requirement) -> str:
    scenario = requirement.scenario
    load = scenario.workload
    if requirement.scope == "train":
        return f"other networks of {', '.join(filter(None, (load.framework, load.recipe)))}"
    types = " + ".join(
        dict.fromkeys(worker_group.node_type for worker_group in scenario.worker_groups)
    )
    if requirement.scope == "cluster":
        speed = link_in_words(scenario.link_mbps)
        if requirement.any_link:
            return f"{types} nodes"
        if requirement.probe == "links":
            return f"{types} nodes" if scenario.link_mbps is None else speed
        return f"{types} on {speed} links"
    what = on_images(load.dnn, load.image_size)
    if requirement.any_batch:
        return f"{what} on {types}"
    servers = [node for node in scenario.nodes if node.role == "server"]
    with_servers = "".join(f", {server.count} {server.node_type}" for server in servers)
    speed = "" if scenario.link_mbps is None else f", {link_in_words(scenario.link_mbps)}"
    return f"{what} b{load.batch_size} on {types}{with_servers}{speed}"


def _minutes(requirement: Requirement) -> float | None:
    probe = PROBES[requirement.probe]
    try:
        needs = list(probe.needs(_asked(requirement), probe.settings()))
    except BadInput:
        return None
    if not needs:
        return None
    return sum(expected_s(start) for start in group_by_start(needs)) / 60


def _asked(requirement: Requirement) -> RequestedScenarios:
    """Return a study's question that makes its probe list the runs which meet an ask.

    How long runs about other networks take is told by those about the one that was asked for.
    """
    alone: tuple[Scenario, ...] = (requirement.scenario,)
    if requirement.scope == "train":
        return RequestedScenarios(train=alone)
    return (
        RequestedScenarios(own=alone)
        if requirement.scope == "own"
        else RequestedScenarios(cluster=alone)
    )
