"""What a round will do, and about how long it takes, before anything of it has run."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from profilers.probe import Need
from studies.needs import starts
from studies.rounds import Round
from studies.taken import Taken

_FORECAST_S, _FORECAST_PER_SCENARIO_S = 2.0, 0.1
"""First guess of a system's fits; of its forecasts as well."""
_REPORT_S, _REPORT_PER_CURVE_S = 5.0, 0.5
"""Judging, and figures, replays and sensitivities of the report."""
REPORT_NAME = "judge and report"


@dataclass(frozen=True)
class Task:
    """Something a round does, and the seconds it is expected to take.

    Tasks of one `kind` are expected to be as much slower or quicker than planned as each other.
    """

    name: str
    expected_s: float
    kind: str = ""


def tasks(
    round_: Round,
    taken: Taken | None = None,
    *,
    judged: bool = True,
    forecasting: Iterable[str] | None = None,
) -> tuple[Task, ...]:
    """Return what is still to be done in a round, in order.

    Args:
        round_: that is to be done.
        taken: what has landed: runs take as long as those like them did. None: as probes expect.
        judged: whether forecasts are judged as well; else it ends with them.
        forecasting: the systems that forecast any of it, by name; None: all that it chooses.
    """
    systems = round_.asking.systems if forecasting is None else tuple(forecasting)
    return tuple(_tasks(round_, taken, systems, judged=judged))


def fit_name(system: str) -> str:
    """Return what progress and plans call the fits of a system."""
    return f"fit {system}"


def prediction_name(system: str) -> str:
    """Return what progress and plans call all forecasts of a system."""
    return f"predict by {system}"


def _tasks(
    round_: Round, taken: Taken | None, systems: Sequence[str], *, judged: bool
) -> Iterator[Task]:
    missing = round_.missing
    yield from _of([need for need in missing if need.profiles], taken)
    yield from _forecasts(round_, systems)
    if not judged:
        return
    yield from _of([need for need in missing if not need.profiles], taken)
    if not round_.study.only_profiles:
        expected_s = _REPORT_S + _REPORT_PER_CURVE_S * len(round_.study.curves)
        yield Task(REPORT_NAME, expected_s, "report")


def _forecasts(round_: Round, systems: Sequence[str]) -> Iterator[Task]:
    judged = (curve for curve in round_.study.curves if curve.is_judged)
    scenarios = sum(len(curve.scenarios(round_.backend)) for curve in judged)
    expected_s = _FORECAST_S + _FORECAST_PER_SCENARIO_S * scenarios
    for name, kind in ((fit_name, "fit"), (prediction_name, "predict")):
        yield from (Task(name(one), expected_s, kind) for one in systems if scenarios)


def _of(missing: Sequence[Need], taken: Taken | None) -> Iterator[Task]:
    """Yield needs in the order in which they are run; the first of a start has its seconds too."""
    for start in starts(missing):
        for place, need in enumerate(start):
            before = None if taken is None else taken.seconds(need)
            started_s = 0.0 if place else need.start_s
            if before is None:
                yield Task(need.title, need.expected_s + started_s, need.probe)
            else:
                # A run with a start of its own has that start's seconds in it.
                own = 0.0 if need.start is None else started_s
                yield Task(need.title, before + own, need.probe)
