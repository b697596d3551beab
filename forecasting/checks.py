"""Can a study be forecast? Asked before anything is measured."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from forecasting.chosen import asking, systems_of
from forecasting.resting import Resting, resting
from models.system import NotCovered, System
from profilers.allreduce import mtu_bytes
from profilers.probe import Need
from studies.checks import check_study
from studies.needs import needs
from studies.study import Study
from warehouse.asks import Refusal
from warehouse.records import Backend, BadInput, Scenario


def check_forecasts(study: Study, source: Path, backend: Backend) -> None:
    """Refuse a study that cannot be measured here, or of which a scenario could not be forecast.

    Raises:
        BadInput: naming the file and the field.
        MissingTool: a probe needs a program that this host lacks.
    """
    try:
        systems = systems_of(study)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from None
    check_study(study, source, backend, asking(systems))
    needed = needs(study, backend, asking(systems))
    judged = [curve for curve in study.curves if curve.is_judged]
    found = {
        (system.name, curve): resting(system, curve, needed, backend, study.learns_from)
        for system in systems
        for curve in judged
    }
    for curve in judged:
        for scenario in curve.scenarios(backend):
            rests = {system: found[system.name, curve][scenario] for system in systems}
            if reason := _refused_by_all(rests, scenario):
                raise BadInput(
                    f"{source}: {study.place_of(curve)}: no system forecasts {scenario.label}: "
                    f"{reason}"
                )
    covered: set[Scenario] = set()
    uncovered: dict[Scenario, BadInput] = {}
    for system in systems:
        ours = {curve: found[system.name, curve] for curve in judged}
        seen = _needs_of(ours.values())
        for curve, of_curve in ours.items():
            for scenario, rest in of_curve.items():
                if isinstance(rest, Refusal):
                    continue
                planned = seen if system.pooled else rest
                place = study.place_of(curve)
                try:
                    _check(system, scenario, planned, backend, f"{source}: ", place)
                except NotCovered as error:
                    uncovered.setdefault(scenario, error)
                else:
                    covered.add(scenario)
    for scenario, told in uncovered.items():
        if scenario not in covered:
            raise told


def _refused_by_all(
    rests: Mapping[System, tuple[Need, ...] | Refusal], scenario: Scenario
) -> str | None:
    """Return the reason to tell where every system refuses a scenario.

    That of a system about such training, else of one whose asks the study does not meet.
    """
    refused = {system: one for system, one in rests.items() if isinstance(one, Refusal)}
    if len(refused) < len(rests):
        return None
    said = [
        (one.foreign, isinstance(system.rests_on(scenario), Refusal), one.reason)
        for system, one in refused.items()
    ]
    return min(said, key=lambda one: one[:2])[2]


def _needs_of(found: Iterable[Resting]) -> list[Need]:
    """Return each need that any forecast rests on, once."""
    several = (rest for one in found for rest in one.values() if not isinstance(rest, Refusal))
    return list(dict.fromkeys(need for needs_ in several for need in needs_))


def _check(
    system: System,
    scenario: Scenario,
    planned: Sequence[Need],
    backend: Backend,
    source: str,
    place: str,
) -> None:
    try:
        system.check(scenario, planned, mtu_bytes(backend))
    except BadInput as error:
        where = "" if str(error).startswith("probes.") else f"{place}: "
        raise type(error)(f"{source}{where}{error}") from None
