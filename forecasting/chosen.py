"""The systems that a study chooses, and what they ask for."""

from collections.abc import Iterator, Sequence

from models.system import System
from models.systems import SYSTEMS
from studies.needs import Asking
from studies.study import Study
from warehouse.asks import Ask, Refusal
from warehouse.records import BadInput, Scenario


def systems_of(study: Study) -> tuple[System, ...]:
    """Return the systems that a study names, all that need no naming if it names none.

    Raises:
        BadInput: there is no system of a name.
    """
    return named(study.systems)


def named(names: Sequence[str]) -> tuple[System, ...]:
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


def asking(systems: Sequence[System]) -> Asking:
    """Return what tells what these systems ask for; refusals ask for nothing."""

    def asks(scenario: Scenario) -> Iterator[Ask]:
        for system in systems:
            rests = system.rests_on(scenario)
            if not isinstance(rests, Refusal):
                yield from rests

    return Asking(tuple(system.name for system in systems), asks)


def asking_of(study: Study) -> Asking:
    """Return what tells what the systems of a study ask for.

    Raises:
        BadInput: as `systems_of`.
    """
    return asking(systems_of(study))


def foremost(study: Study) -> tuple[str, ...]:
    """Return the names of a study's systems that reports are about; of all, where there is none.

    Of a scenario that several forecast, reports show the first; of one that all of them refuse,
    none: what stands beside them does not stand in for them.
    """
    ours = systems_of(study)
    about = [system.name for system in ours if system.beside]
    return tuple(about or (system.name for system in ours))


def baselines() -> tuple[str, ...]:
    """Return the names of the systems that these stand beside, each once."""
    return tuple(dict.fromkeys(system.beside for system in SYSTEMS if system.beside))


def baseline_in_words(study: Study) -> str:
    """Return what forecasts of a study stand beside, as figures and tables name it.

    That is the baseline of the first system that forecasts its first test scenario.
    """
    scenario = study.test[0][0].scenarios("loopback")[0]
    for system in systems_of(study):
        if system.beside and not isinstance(system.rests_on(scenario), Refusal):
            return next(one.in_words for one in SYSTEMS if one.name == system.beside)
    return "linear scaling"
