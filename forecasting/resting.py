"""What forecasts of a curve rest on: the runs of a round that meet what a system asks for."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from models.profiled_run import refusal
from models.system import System
from profilers.probe import Need
from profilers.scenarios import alone
from studies.curve import Curve
from studies.needs import resolved
from studies.rounds import Round
from studies.study import Study
from warehouse.asks import Ask, Refusal, serves
from warehouse.records import Backend, Run, Scenario

Resting = Mapping[Scenario, tuple[Need, ...] | Refusal]
"""By scenario, the runs that a forecast rests on, or why there is none."""


def resting(
    system: System,
    curve: Curve,
    needed: Sequence[Need],
    backend: Backend,
    learns_from: Collection[str],
) -> Resting:
    """Return what a system's forecast of each scenario of a curve rests on.

    Args:
        system: that forecasts.
        curve: one of a study.
        needed: what a round of the study needs; found needs keep its order.
        backend: where it is measured.
        learns_from: other studies, whose train scenarios do for systems that travel.
    """
    learns = system.travels and bool(learns_from)
    profiles = [need for need in needed if need.profiles]
    # The scenarios of a curve share most of what they rest on.
    met: dict[Ask, list[Need] | Refusal] = {}
    found: dict[Scenario, tuple[Need, ...] | Refusal] = {}
    for scenario in curve.scenarios(backend):
        asks = system.rests_on(scenario)
        if isinstance(asks, Refusal):
            found[scenario] = asks
            continue
        for ask in asks:
            if ask not in met:
                met[ask] = _met(ask, curve, profiles, backend, learns)
        ours = [met[ask] for ask in asks]
        refused = next((one for one in ours if isinstance(one, Refusal)), None)
        found[scenario] = refused or _in_order(ours, profiles)
    return found


def rested_on(
    system: System,
    curve: Curve,
    needed: Sequence[Need],
    backend: Backend,
    learns_from: Collection[str],
) -> tuple[Need, ...]:
    """Return all of a study that a system's forecasts of a curve rest on; see `resting`."""
    return _in_order(resting(system, curve, needed, backend, learns_from).values(), needed)


def rests(
    systems: Iterable[System], study: Study, needed: Sequence[Need], backend: Backend
) -> dict[System, tuple[Need, ...]]:
    """Return all of a study that each system's forecasts rest on.

    Systems that refuse all test scenarios are left out; those that only learn from other studies
    rest on nothing of this one.
    """
    judged = [curve for curve in study.curves if curve.is_judged]
    found = {}
    for system in systems:
        ours = (rested_on(system, one, needed, backend, study.learns_from) for one in judged)
        all_of_it = _in_order(ours, needed)
        if all_of_it or (system.travels and study.learns_from):
            found[system] = all_of_it
    return found


def resting_in(round_: Round, system: System, curve: Curve) -> Resting:
    """Return the same of a curve of a round."""
    return resting(system, curve, round_.needs, round_.backend, round_.study.learns_from)


def rested_in(round_: Round, system: System, curve: Curve) -> tuple[Need, ...]:
    """Return all that a round has for a system's forecasts of a curve."""
    return rested_on(system, curve, round_.needs, round_.backend, round_.study.learns_from)


def learned_by(system: System, round_: Round, curve: Curve) -> list[Run]:
    """Return the runs of other studies that a system's forecasts of a curve rest on too."""
    if not system.travels:
        return []
    probes = probes_asked(system, curve, round_.backend)
    return [run for run in round_.learned if run.probe in probes]


def probes_asked(system: System, curve: Curve, backend: Backend) -> set[str]:
    """Return the probes whose runs a system's forecasts of a curve rest on."""
    asks = map(system.rests_on, curve.scenarios(backend))
    return {ask.probe for some in asks if not isinstance(some, Refusal) for ask in some}


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
            for need in rested_in(round_, system, curve)
            if not need.of_train
        }
        if own:
            return all(own.values())
    subjects = set(curve.scenarios(backend)).union(*map(alone, curve.scenarios(backend)))
    there = [
        round_.run_of(need) is not None
        for need in needs
        if need.subject.scenario in subjects and need.of_train != curve.is_judged
    ]
    return any(there) if curve.is_judged else all(there)


def _in_order(
    found: Iterable[Sequence[Need] | Refusal], needed: Sequence[Need]
) -> tuple[Need, ...]:
    """Return each need once, as needed; refusals rest on nothing. What is found is of `needed`."""
    # By identity: a need is hashed with its whole scenario, and lineage asks for thousands.
    wanted = {id(need) for some in found if not isinstance(some, Refusal) for need in some}
    return tuple(need for need in needed if id(need) in wanted)


def _met(
    ask: Ask, curve: Curve, profiles: Sequence[Need], backend: Backend, learns: bool
) -> list[Need] | Refusal:
    """Return the runs that meet an ask, in a study that profiles a curve on links of its own."""
    asks = resolved(ask, curve, backend)
    if ask.on_its_link and (reason := refusal(asks[0].scenario, ask.scenario)):
        return Refusal(reason)
    found = [
        need
        for need in profiles
        if need.probe == ask.probe
        and any(serves(need.subject, one) for one in asks)
        and (need.of_train or ask.whose != "train")
    ]
    if ask.switched_on and not all(need.settings.get(ask.switched_on) for need in found):
        return Refusal(
            f"it rests on {ask.probe}: {{{ask.switched_on}: true}}, and the study has it without"
        )
    if learns and ask.whose == "cluster" and not found:
        return Refusal(
            f"it learns from other hosts, and knows nodes by {ask.probe}; name that under probes"
        )
    if found or ask.optional or (learns and ask.whose == "train"):
        return found
    of = "train scenario" if ask.whose == "train" else "run"
    return Refusal(f"the study has no {of} of {ask.probe} that it could learn from", foreign=True)
