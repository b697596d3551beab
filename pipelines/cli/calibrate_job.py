"""`stepcast predict --calibrate one-node`: half a minute of one node, which corrects forecasts."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from forecasting.calibration import MeasuredSteps
from forecasting.history_scope import CALIBRATING, HostSelection
from forecasting.study_checks import chosen_backend
from pipelines.cli.calibrate import EXAMPLE, ONE_NODE
from pipelines.cli.errors import Interrupted
from pipelines.cli.progress import show_progress
from profilers.clusters import host_id
from profilers.clusters.fleet import RENTED
from profilers.probe import THROUGHPUT
from profilers.probes import measuring_probe
from studies import measurement, run_tables
from studies.curve import Curve
from studies.plan import RunDurations, tasks
from studies.planned_runs import NO_INPUTS
from studies.rounds import Round, open_round
from studies.study import Study
from warehouse.landing import landed_runs
from warehouse.records import Backend, BadInput, Run, content_hash

_HALF_A_MINUTE = {
    "torch_throughput": {"iterations": 60, "interval": 0.02, "most_s": 30},
    "tf_throughput": {"windows": 3, "window_s": 8},
    "tf_sync": {"windows": 3, "window_s": 8},
}
"""Settings of probes that measure a scenario, so that steps take about thirty seconds."""


def measure_steps(
    curves: Sequence[Curve], backend: str | None, place: HostSelection, landing: Path
) -> MeasuredSteps:
    """Train on one node of each type that is asked about, about thirty seconds for each batch.

    The runs land as those of a study of their own, which no fit sees.

    Args:
        curves: what is asked about.
        backend: where the nodes are; None: on this host.
        place: whose forecasts the steps correct.
        landing: where runs land.

    Raises:
        BadInput: the nodes would have to be rented, forecasts are of another place, or each curve
            is of several node types.
        ProbeFailed: a probe failed; its failed run has landed.
        Interrupted: the user stopped it.
    """
    chosen, _ = chosen_backend(backend or "auto")
    if chosen in RENTED:
        raise BadInput(
            f"--calibrate {ONE_NODE}: nodes of {chosen} are rented; measure one step yourself and "
            f"give its seconds: {EXAMPLE}"
        )
    check_here(place, chosen)
    alone = list(
        dict.fromkeys(
            curve.model_copy(update={"workers": (1,), "is_judged": False})
            for curve in curves
            if len(curve.worker) == 1 and not curve.mix
        )
    )
    if not alone:
        raise BadInput(
            f"--calibrate {ONE_NODE}: expected workers of one node type, found mixes only; give "
            f"the seconds of a step that you measured: {EXAMPLE}"
        )
    before, host = landed_runs(landing), host_id(chosen)
    round_ = _visit(_study(alone, chosen), chosen, host, before)
    round_ = _measure(round_, landing, RunDurations(before, host, landing))
    runs = {need.scenario: run for need, run in round_.runs_of(*_HALF_A_MINUTE).items()}
    steps = MeasuredSteps()
    for curve in alone:
        run = runs[curve.scenario(1, chosen)]
        known = curve.model_copy(update={"is_judged": True})
        steps.of[known], steps.run_ids[known] = _step_s(landing, run, curve), run.run_id
    return steps


def check_here(place: HostSelection, measured_on: Backend) -> None:
    """Refuse to correct forecasts of one place by a step of another.

    Args:
        place: whose forecasts they are.
        measured_on: the backend on which this host would measure.

    Raises:
        BadInput: they are of another host, or of another backend.
    """
    if place.is_here and place.backend == measured_on:
        return
    host = host_id(measured_on)
    raise BadInput(
        f"--calibrate {ONE_NODE} measures backend {measured_on}, host {host}, but forecasts are "
        f"of backend {place.backend}, host {place.host_id}: give --backend {measured_on} --host "
        f"{host}; if it has no runs, profile here first (`stepcast run STUDY.yaml`)"
    )


def _study(alone: Sequence[Curve], backend: Backend) -> Study:
    probes = dict.fromkeys(measuring_probe(curve.scenario(1, backend)).name for curve in alone)
    about = "".join(curve.canonical_json() for curve in alone)
    return Study.model_validate(
        {
            "name": f"{CALIBRATING}{content_hash(about)[:8]}",
            "description": "One node each, to correct forecasts.",
            "probes": {name: _HALF_A_MINUTE[name] for name in probes},
            "train": alone,
        }
    )


def _visit(study: Study, backend: Backend, host: str, before: Iterable[Run]) -> Round:
    """Return a new round of it: what was measured before is of another hour."""
    visits = (run.repeat for run in before if run.study == study.name)
    return replace(
        open_round(study, NO_INPUTS, backend, host, ()), repeat=max(visits, default=0) + 1
    )


def _measure(round_: Round, landing: Path, taken: RunDurations) -> Round:
    try:
        with show_progress(tasks(round_, taken)) as progress:
            for probe in dict.fromkeys(need.probe for need in round_.needs):
                round_ = measurement.profile(round_, probe, landing, progress)
    except KeyboardInterrupt:
        raise Interrupted("stopped, and everything torn down") from None
    return round_


def _step_s(landing: Path, run: Run, curve: Curve) -> float:
    """Return the seconds of a worker's step that a run of one worker measured."""
    sample = run_tables.table(landing, run, "sample")
    values = sample.filter(sample["metric"] == curve.metric.name)["value"].drop_nulls()
    value = float(values.to_numpy().mean())
    return 1 / value if curve.metric == THROUGHPUT else value
