"""How long systems have others measure before they can answer for a batch of workloads (Fig. 13).

A workload is a network that is judged; batches take them in the order of the study. Where Ernest's
forecasts by runs of its own were judged, by this study or another, workloads are what it forecast:
all systems are then judged by the same scenarios. Runs count by the clock, one after another; what
serves several workloads counts once. Runs of Ernest's own are those of any study, and counted as a
plan expects them where there are none.

Source: Assogba et al., PredictDDL, section IV-B5.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from forecasting.chosen import systems_of
from forecasting.resting import learned_by, resting_in
from models.ernest.systems import ERNEST
from models.system import System
from profilers.probe import Asked, Need
from profilers.probes import PROBES
from studies.curve import Curve
from studies.needs import expected_s, resolved, starts
from studies.rounds import Round
from warehouse.asks import Refusal
from warehouse.records import Run, Scenario

COLUMNS = {
    "system": pl.String,
    "workloads": pl.Int64,
    "measuring_s": pl.Float64,
    "expected": pl.Boolean,
    "n": pl.Int64,
    "error_percent": pl.Float64,
}
"""Of a system and a number of workloads: seconds of runs that it rests on, whether a plan expects
some of them, and its mean absolute error on the judged scenarios of these, n of them."""
Workloads = Mapping[str, Sequence[tuple[Curve, Sequence[Scenario]]]]
"""By network, its judged scenarios, curve by curve."""


@dataclass
class _Waited:
    """Runs, each counted once: seconds of those that landed, and those that a plan expects."""

    landed_s: dict[str, float] = field(default_factory=dict)
    planned: dict[Need, None] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Of all of them; runs that share a start pay for it once."""
        planned_s = sum(expected_s(start) for start in starts(list(self.planned)))
        return sum(self.landed_s.values()) + planned_s


def waiting(
    round_: Round, workloads: Workloads, judged: pl.DataFrame, runs: Iterable[Run]
) -> pl.DataFrame:
    """Return `COLUMNS` for each system of a round, and Ernest, that says something.

    Args:
        round_: that has landed.
        workloads: see `workloads_of`.
        judged: as `forecasting.findings.judged.judged_of` returns it.
        runs: all that landed, of any study.
    """
    own = _own_runs(round_, runs)
    systems = dict.fromkeys((*systems_of(round_.study), ERNEST))
    rows = [
        row
        for system in systems
        for row in _of_system(system, round_, workloads, judged.filter(system=system.name), own)
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def workloads_of(round_: Round, judged: pl.DataFrame) -> Workloads:
    """Return the judged scenarios of each network, in the order of the study; of Ernest if any."""
    of_ernest = judged.filter(system=ERNEST.name)
    counting = set((judged if of_ernest.is_empty() else of_ernest)["scenario_id"])
    found: dict[str, list[tuple[Curve, list[Scenario]]]] = {}
    for curve in round_.study.curves:
        if not curve.is_judged:
            continue
        ours = [one for one in curve.scenarios(round_.backend) if one.scenario_id in counting]
        if ours:
            found.setdefault(curve.dnn, []).append((curve, ours))
    return found


def _own_runs(round_: Round, runs: Iterable[Run]) -> Mapping[str | None, Run]:
    """Return the newest run by scenario that Ernest could learn from, where the round is."""
    wanted = ("ok", "torch_throughput", "profile", round_.backend, round_.host_id)
    ours = [
        run
        for run in runs
        if (run.status, run.probe, run.purpose, run.backend, run.host_id) == wanted
    ]
    return {run.scenario_id: run for run in sorted(ours, key=lambda run: run.started_at)}


def _of_system(
    system: System,
    round_: Round,
    workloads: Workloads,
    judged: pl.DataFrame,
    own: Mapping[str | None, Run],
) -> Iterator[tuple[str, int, float, bool, int, float | None]]:
    waited, errors = _Waited(), list[float]()
    for count, some in enumerate(workloads.values(), start=1):
        for curve, scenarios in some:
            if system.name == ERNEST.name:
                _wait_for_own(curve, scenarios, round_, own, waited)
            else:
                _wait(system, curve, scenarios, round_, waited)
            ids = [one.scenario_id for one in scenarios]
            ours = judged.filter(pl.col("scenario_id").is_in(ids))
            errors += ours["error_percent"].abs().to_list()
        if seconds := waited.seconds:
            mean = sum(errors) / len(errors) if errors else None
            yield system.name, count, seconds, bool(waited.planned), len(errors), mean


def _wait(
    system: System, curve: Curve, scenarios: Sequence[Scenario], round_: Round, waited: _Waited
) -> None:
    """Add the runs of the round that a system's forecasts of scenarios rest on."""
    rests = resting_in(round_, system, curve)
    for scenario in scenarios:
        if isinstance(needs := rests[scenario], Refusal):
            continue
        for need in needs:
            if run := round_.run_of(need):
                waited.landed_s[run.run_id] = run.took_s
    for run in learned_by(system, round_, curve):
        waited.landed_s[run.run_id] = run.took_s


def _wait_for_own(
    curve: Curve,
    scenarios: Sequence[Scenario],
    round_: Round,
    own: Mapping[str | None, Run],
    waited: _Waited,
) -> None:
    """Add Ernest's own runs of scenarios: of whichever study measured them, else as planned."""
    probe = PROBES["torch_throughput"]
    for scenario in scenarios:
        if isinstance(asks := ERNEST.rests_on(scenario), Refusal):
            continue
        found = [one for ask in asks for one in resolved(ask, curve, round_.backend)]
        asked = Asked(own=tuple(one.scenario for one in found))
        for need in probe.needs(asked, probe.settings()):
            if run := own.get(need.scenario.scenario_id):
                waited.landed_s[run.run_id] = run.took_s
            else:
                waited.planned[need] = None
