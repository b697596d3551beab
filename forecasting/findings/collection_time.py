"""How long systems have others measure before they can answer, beside Ernest (Fig. 13).

A workload is a network that is judged; batches take them in the order of the study. Where Ernest's
forecasts by runs of its own were judged, by this study or another, workloads are what it forecast:
all systems are then judged by the same scenarios. Runs count by the clock, one after another; what
serves several workloads counts once. Runs of Ernest's own are those of any study, and counted as a
plan expects them where there are none.

Source: Assogba et al., PredictDDL, section IV-B5.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import process_time

import polars as pl

from forecasting.findings.store import Store, digest, known_digest
from forecasting.inputs import foreign_input_runs, round_input_runs_by_scenario, systems_of
from models.ernest import ERNEST
from models.predictddl.fit import PredictDDL
from models.predictddl.observations import one_thread
from models.predictddl.systems import PREDICTDDL
from models.predictddl.training_set import TrainingSet, key_of
from models.system import NotCovered, System
from profilers.probe import PlannedRun, RequestedScenarios
from profilers.probes import PROBES
from studies.curve import Curve
from studies.planned_runs import expected_s, group_by_start, resolve_input
from studies.rounds import Round
from warehouse.inputs import Refusal
from warehouse.records import BadInput, Run, Scenario

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
class _CollectionTime:
    """Runs, each counted once: seconds of those that landed, and those that a plan expects."""

    landed_s: dict[str, float] = field(default_factory=dict)
    planned: dict[PlannedRun, None] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Of all of them; runs that share a start pay for it once."""
        planned_s = sum(expected_s(start) for start in group_by_start(list(self.planned)))
        return sum(self.landed_s.values()) + planned_s


def collection_times(
    round_: Round, workloads: Workloads, judged: pl.DataFrame, runs: Iterable[Run]
) -> pl.DataFrame:
    """Return `COLUMNS` for each system of a round, and Ernest, that says something.

    Args:
        round_: that has landed.
        workloads: see `workloads_of`.
        judged: as `forecasting.findings.study.judged_forecasts` returns it.
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
    workloads: dict[str, list[tuple[Curve, list[Scenario]]]] = {}
    for curve in round_.study.curves:
        if not curve.is_judged:
            continue
        scenarios = [
            scenario
            for scenario in curve.scenarios(round_.backend)
            if scenario.scenario_id in counting
        ]
        if scenarios:
            workloads.setdefault(curve.dnn, []).append((curve, scenarios))
    return workloads


def _own_runs(round_: Round, runs: Iterable[Run]) -> Mapping[str | None, Run]:
    """Return the newest run by scenario that Ernest could learn from, where the round is."""
    wanted = ("ok", "torch_throughput", "profile", round_.backend, round_.host_id)
    own_runs = [
        run
        for run in runs
        if (run.status, run.probe, run.purpose, run.backend, run.host_id) == wanted
    ]
    return {run.scenario_id: run for run in sorted(own_runs, key=lambda run: run.started_at)}


def _of_system(
    system: System,
    round_: Round,
    workloads: Workloads,
    judged: pl.DataFrame,
    own: Mapping[str | None, Run],
) -> Iterator[tuple[str, int, float, bool, int, float | None]]:
    waited, errors = _CollectionTime(), list[float]()
    for count, curves in enumerate(workloads.values(), start=1):
        for curve, scenarios in curves:
            if system.name == ERNEST.name:
                _wait_for_own(curve, scenarios, round_, own, waited)
            else:
                _wait(system, curve, scenarios, round_, waited)
            ids = [scenario.scenario_id for scenario in scenarios]
            rows = judged.filter(pl.col("scenario_id").is_in(ids))
            errors += rows["error_percent"].abs().to_list()
        if seconds := waited.seconds:
            mean = sum(errors) / len(errors) if errors else None
            yield system.name, count, seconds, bool(waited.planned), len(errors), mean


def _wait(
    system: System,
    curve: Curve,
    scenarios: Sequence[Scenario],
    round_: Round,
    waited: _CollectionTime,
) -> None:
    """Add the runs of the round that a system's forecasts of scenarios rest on."""
    rests = round_input_runs_by_scenario(round_, system, curve)
    for scenario in scenarios:
        if isinstance(needs := rests[scenario], Refusal):
            continue
        for need in needs:
            if run := round_.run_of(need):
                waited.landed_s[run.run_id] = run.took_s
    for run in foreign_input_runs(system, round_, curve):
        waited.landed_s[run.run_id] = run.took_s


def _wait_for_own(
    curve: Curve,
    scenarios: Sequence[Scenario],
    round_: Round,
    own: Mapping[str | None, Run],
    waited: _CollectionTime,
) -> None:
    """Add Ernest's own runs of scenarios: of whichever study measured them, else as planned."""
    probe = PROBES["torch_throughput"]
    for scenario in scenarios:
        if isinstance(asks := ERNEST.rests_on(scenario), Refusal):
            continue
        inputs = [input_ for ask in asks for input_ in resolve_input(ask, curve, round_.backend)]
        requested = RequestedScenarios(own=tuple(input_.scenario for input_ in inputs))
        for need in probe.needs(requested, probe.settings()):
            if run := own.get(need.scenario.scenario_id):
                waited.landed_s[run.run_id] = run.took_s
            else:
                waited.planned[need] = None


# How many times as long as PredictDDL Ernest takes for a batch of workloads (Fig. 13).
#
# Ernest's time is that of its own runs, where they were measured: what a plan expects of them is
# not compared. Its fits and forecasts take milliseconds. PredictDDL's is that of a fit, embeddings
# and forecasts, and, where they count, of the runs that the fit sees, which are measured once for
# all workloads. Graphs are at hand; neither their tracing nor the embedder's training counts.
#
# Source: Assogba et al., PredictDDL, section IV-B5.


ERNEST_COLUMNS = {
    "workloads": pl.Int64,
    "ernest_s": pl.Float64,
    "answering_s": pl.Float64,
    "learning_s": pl.Float64,
    "ratio": pl.Float64,
    "ratio_with_runs": pl.Float64,
}
"""Of a number of workloads: seconds of Ernest's own runs; of PredictDDL's fit, embeddings and
forecasts, and of the runs that it learns from; Ernest's seconds over PredictDDL's, without these
runs and with them."""


def answering_s(
    known: TrainingSet, workloads: Workloads, store: Store | None = None
) -> list[float]:
    """Return seconds of a core until PredictDDL has answered for one workload, two, and so on.

    Nothing, where it cannot be fitted. Seconds are of processor time, which a busy host stretches
    too, but less than the clock's.

    Args:
        known: the runs that it learns from.
        workloads: in their order.
        store: keeps the seconds; None: they are measured.
    """
    batches = [
        [scenario for _, scenarios in curves for scenario in scenarios]
        for curves in workloads.values()
    ]
    keys = (" ".join(scenario.scenario_id for scenario in batch) for batch in batches)
    kept = (store or Store()).frame(
        "answering",
        __name__,
        digest(known_digest(known), *keys),
        lambda: pl.DataFrame({"seconds": _measured_s(known, batches)}, {"seconds": pl.Float64}),
    )
    return kept["seconds"].to_list()


def _measured_s(known: TrainingSet, batches: Sequence[Sequence[Scenario]]) -> list[float]:
    known.graphs([key_of(scenario) for batch in batches for scenario in batch])
    # Of others, embeddings may be at hand.
    fresh = TrainingSet(known.runs, known.measured, known.graphs, known.embedder)
    seconds = []
    with one_thread():
        began_s = process_time()
        try:
            fitted = PredictDDL.fit(fresh)
        except BadInput:
            return []
        for batch in batches:
            for scenario in batch:
                with suppress(NotCovered):
                    fitted.predict([scenario])
            seconds.append(process_time() - began_s)
    return seconds


def compare_with_ernest(waiting: pl.DataFrame, answering: Sequence[float]) -> pl.DataFrame:
    """Return `COLUMNS`: Ernest's time beside PredictDDL's, by number of workloads.

    Args:
        waiting: rows of `forecasting.findings.collection_time`.
        answering: of `answering_s`.
    """
    learning = waiting.filter(system=PREDICTDDL.name).select("workloads", learning_s="measuring_s")
    took = pl.DataFrame(
        {"workloads": range(1, len(answering) + 1), "answering_s": answering},
        {"workloads": pl.Int64, "answering_s": pl.Float64},
    )
    return (
        waiting.filter(~pl.col("expected"), system=ERNEST.name)
        .select("workloads", ernest_s="measuring_s")
        .join(took, on="workloads")
        .join(learning, on="workloads")
        .with_columns(
            ratio=pl.col("ernest_s") / pl.col("answering_s"),
            ratio_with_runs=pl.col("ernest_s") / (pl.col("answering_s") + pl.col("learning_s")),
        )
        .select(ERNEST_COLUMNS.keys())
        .sort("workloads")
    )
