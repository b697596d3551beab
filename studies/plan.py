"""What a round will do, and about how long it takes, before anything of it has run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from profilers.probe import Need
from studies.needs import starts
from studies.rounds import Round

_PREDICT_S = 6.0
"""First guess of all forecasts of a scenario."""
_REPORT_S, _REPORT_PER_CURVE_S = 2.0, 2.5
"""Judging, and figures, replays and sensitivities of the report."""
REPORT_NAME = "judge and report"


@dataclass(frozen=True)
class Task:
    """Something a round does, and the seconds it is expected to take."""

    name: str
    expected_s: float


def tasks(round_: Round) -> tuple[Task, ...]:
    """Return what is still to be done in a round, in order."""
    return tuple(_tasks(round_))


def prediction_name(label: str) -> str:
    """Return what progress and plans call the forecasts of a scenario."""
    return f"predict {label}"


def _tasks(round_: Round) -> Iterator[Task]:
    missing = round_.missing
    yield from _of([need for need in missing if need.profiles])
    for curve in round_.study.curves:
        for scenario in curve.scenarios(round_.backend) if curve.is_judged else ():
            yield Task(prediction_name(scenario.label), _PREDICT_S)
    yield from _of([need for need in missing if not need.profiles])
    if not round_.study.only_profiles:
        yield Task(REPORT_NAME, _REPORT_S + _REPORT_PER_CURVE_S * len(round_.study.curves))


def _of(missing: Sequence[Need]) -> Iterator[Task]:
    """Yield needs in the order in which they are run; the first of a start has its seconds too."""
    for start in starts(missing):
        for place, need in enumerate(start):
            yield Task(need.title, need.expected_s + (0.0 if place else need.start_s))
