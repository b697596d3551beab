"""What a round will do, and about how long that takes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from profilers.probe import PlannedRun
from studies.planned_runs import group_by_start
from studies.rounds import Round

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
    round_: Round, *, judged: bool = True, forecasting: Iterable[str] | None = None
) -> tuple[Task, ...]:
    """Return what is still to be done in a round, in order.

    Args:
        round_: that is to be done.
        judged: whether forecasts are judged as well; else it ends with them.
        forecasting: the systems that forecast any of it, by name; None: all that it chooses.
    """
    study, missing = round_.study, round_.missing
    systems = round_.asking.systems if forecasting is None else tuple(forecasting)
    planned = list(_of([need for need in missing if need.profiles]))
    judged_curves = [curve for curve in study.curves if curve.is_judged]
    if scenarios := sum(len(curve.scenarios(round_.backend)) for curve in judged_curves):
        expected_s = _FORECAST_S + _FORECAST_PER_SCENARIO_S * scenarios
        planned += [Task(fit_name(system), expected_s, "fit") for system in systems]
        planned += [Task(prediction_name(system), expected_s, "predict") for system in systems]
    if judged:
        planned += _of([need for need in missing if not need.profiles])
        if not study.only_profiles:
            report_s = _REPORT_S + _REPORT_PER_CURVE_S * len(study.curves)
            planned.append(Task(REPORT_NAME, report_s, "report"))
    return tuple(planned)


def fit_name(system: str) -> str:
    """Return what progress and plans call the fits of a system."""
    return f"fit {system}"


def prediction_name(system: str) -> str:
    """Return what progress and plans call all forecasts of a system."""
    return f"predict by {system}"


def _of(missing: Sequence[PlannedRun]) -> Iterator[Task]:
    """Yield needs in the order in which they are run; the first of a start has its seconds too."""
    for start in group_by_start(missing):
        for place, need in enumerate(start):
            started_s = 0.0 if place else need.start_s
            yield Task(need.title, need.expected_s + started_s, need.probe)
