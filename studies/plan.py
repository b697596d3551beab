"""What a round will do, and how long that takes by runs that are like it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from profilers.probe import PlannedRun
from studies.planned_runs import group_by_start
from studies.rounds import Round
from studies.run_settings import differences
from warehouse.records import Run, Scenario

# How long runs took that are like those a plan has: better than a probe's own guess.


_NEWEST = 30
"""Runs of a probe that are looked at, the newest first: each costs a look into its folder."""


class RunDurations:
    """The runs that have landed on a host, and how long they took.

    Two runs are alike if their probe was asked for the same, of the same network on the same nodes;
    a run of the very same scenario counts more than one that is merely like it.
    """

    def __init__(self, runs: Iterable[Run], host_id: str, landing: Path) -> None:
        """Take the runs of one host.

        Args:
            runs: that have landed.
            host_id: of the host that is planned for.
            landing: the folder that has them.
        """
        self._landing = landing
        self._runs: dict[str, list[Run]] = {}
        self._scenarios: dict[str, Scenario | None] = {}
        for run in sorted(runs, key=lambda run: run.started_at, reverse=True):
            if run.status == "ok" and run.host_id == host_id:
                self._runs.setdefault(run.probe, []).append(run)

    def seconds(self, need: PlannedRun) -> float | None:
        """Return the median of what runs like a need took, None if there is none."""
        same, like = [], []
        for run in islice(self._asked_alike(need), _NEWEST):
            if need.subject.scenario is None:
                same.append(run.took_s)
            elif run.scenario_id == need.scenario.scenario_id:
                same.append(run.took_s)
            elif (scenario := self._scenario(run)) and _about(scenario) == _about(need.scenario):
                like.append(run.took_s)
        return median(same or like) if same or like else None

    def _asked_alike(self, need: PlannedRun) -> Iterator[Run]:
        about = {**need.subject.config, "link_mbps": need.subject.link_mbps}
        for run in self._runs.get(need.probe, ()):
            if differences(run, need.settings) != {}:
                continue
            if need.subject.scenario is not None or about.items() <= run.config.items():
                yield run

    def _scenario(self, run: Run) -> Scenario | None:
        if run.run_id not in self._scenarios:
            self._scenarios[run.run_id] = self._read_scenario(run)
        return self._scenarios[run.run_id]

    def _read_scenario(self, run: Run) -> Scenario | None:
        file = self._landing / run.run_id / "scenario.parquet"
        try:
            (text,) = pq.read_table(file, columns=["canonical"])["canonical"].to_pylist()
            return Scenario.model_validate_json(text)
        except (OSError, ValueError):
            return None


def _about(scenario: Scenario) -> object:
    load = scenario.workload
    nodes = [(node.role, node.node_type, node.count) for node in scenario.nodes]
    return load.dnn, load.framework, load.image_size, tuple(sorted(nodes))


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
    taken: RunDurations | None = None,
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
    study, missing = round_.study, round_.missing
    systems = round_.asking.systems if forecasting is None else tuple(forecasting)
    planned = list(_of([need for need in missing if need.profiles], taken))
    judged_curves = [curve for curve in study.curves if curve.is_judged]
    if scenarios := sum(len(curve.scenarios(round_.backend)) for curve in judged_curves):
        expected_s = _FORECAST_S + _FORECAST_PER_SCENARIO_S * scenarios
        planned += [Task(fit_name(system), expected_s, "fit") for system in systems]
        planned += [Task(prediction_name(system), expected_s, "predict") for system in systems]
    if judged:
        planned += _of([need for need in missing if not need.profiles], taken)
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


def _of(missing: Sequence[PlannedRun], taken: RunDurations | None) -> Iterator[Task]:
    """Yield needs in the order in which they are run; the first of a start has its seconds too."""
    for start in group_by_start(missing):
        for place, need in enumerate(start):
            before = None if taken is None else taken.seconds(need)
            started_s = 0.0 if place else need.start_s
            if before is None:
                yield Task(need.title, need.expected_s + started_s, need.probe)
            else:
                # A run with a start of its own has that start's seconds in it.
                own = 0.0 if need.start is None else started_s
                yield Task(need.title, before + own, need.probe)
