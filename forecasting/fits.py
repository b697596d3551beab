"""From rows that are visible to fits and predictions: kept fits are loaded, missing ones made."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from forecasting.code import code_digest
from forecasting.history_scope import public_runs
from forecasting.inputs import (
    InputRuns,
    foreign_input_runs,
    input_probes,
    rests_on_public,
    round_input_runs,
    round_input_runs_by_scenario,
)
from models.system import FittedSystem, NotCovered, System, Tables
from networks.kept_graphs import keep_beside
from profilers.probes import PROBES
from studies import run_tables
from studies.curve import Curve
from studies.messages import Progress, count, name_some
from studies.plan import fit_name, prediction_name
from studies.rounds import Round
from warehouse.home import code_version
from warehouse.inputs import Refusal
from warehouse.ledger import FitRecord, RegisteredSystem
from warehouse.records import Backend, BadInput, Prediction, Run, Scenario
from warehouse.warehouse import Warehouse


def fit_or_load(
    system: System, run_ids: Sequence[str], tables: Tables, warehouse: Warehouse | None = None
) -> FittedSystem:
    """Return a system as the history keeps it fitted to these runs, else fit it.

    A fit is kept for a system and its version, the tables it reads, the runs and rows that it saw,
    and the code that made it: a digest of the modules that the system uses, so that other changes,
    committed or not, fit nothing anew.

    Args:
        system: that is fitted.
        run_ids: the runs that the fit sees, in any order.
        tables: their rows, as `System.fit` takes them.
        warehouse: the history; None: there is none, and the system is fitted.

    Raises:
        BadInput: as `System.fit`.
    """
    kept = None if warehouse is None else load_kept(system, run_ids, tables, warehouse)
    return system.fit(tables) if kept is None else kept


def load_kept(
    system: System, run_ids: Sequence[str], tables: Tables, warehouse: Warehouse
) -> FittedSystem | None:
    """Return what the history keeps of `fit_or_load`, None if it has to be fitted."""
    kept = newest_kept_fit(system, run_ids, tables, warehouse)
    return None if kept is None else system.load(str(kept["parameters"]), tables)


def record_of(
    system: System,
    fitted: FittedSystem,
    run_ids: Sequence[str],
    tables: Tables,
    *,
    backend: Backend,
    host_id: str,
) -> FitRecord:
    """Return what the ledger keeps of a system that this code fitted to some runs."""
    return FitRecord(
        system=system.name,
        model_version=system.version,
        parameters=json.loads(fitted.parameters_json()),
        run_ids=tuple(run_ids),
        row_filter=row_filter(system),
        row_count=sum(table.height for table in tables.values()),
        data_hash=data_hash(tables),
        backend=backend,
        host_id=host_id,
        code_version=code_version(),
        code_digest=code_digest(system),
        created_at=datetime.now(UTC),
    )


def data_hash(tables: Tables) -> str:
    """Return what names the content of the rows that a fit sees."""
    digest = sha256()
    for name, table in sorted(tables.items()):
        digest.update(f"{name}\n{table.write_csv()}".encode())
    return digest.hexdigest()[:16]


def mark_foreign_hosts(tables: Tables, host_id: str) -> Tables:
    """Return what a fit sees: where some runs are of other hosts, `run` says which (`elsewhere`).

    Args:
        tables: rows of raw tables.
        host_id: the host that forecasts are about.
    """
    runs = tables.get("run")
    if runs is None:
        return tables
    # What others measured is of no host that forecasts are about.
    elsewhere = (pl.col("host_id") != host_id) & (pl.col("backend") != "imported")
    marked = runs.with_columns(elsewhere=elsewhere)
    return {**tables, "run": marked} if marked["elsewhere"].any() else tables


def _here(runs: pl.DataFrame) -> list[str]:
    """Return the host that forecasts of a fit are about, of runs with `mark_foreign_hosts`."""
    return runs.filter(~pl.col("elsewhere"))["host_id"].unique().to_list()


def row_filter(system: System) -> str:
    """Return which rows of its runs a fit of a system sees, in the words of its record."""
    return f"all visible rows of these runs in {', '.join(system.tables)}"


def newest_kept_fit(
    system: System, run_ids: Sequence[str], tables: Tables | None, warehouse: Warehouse
) -> Mapping[str, Any] | None:
    """Return the newest fit that is kept for all of these, as query `fits` has it; None: none.

    Without `tables`, runs of which rows were loaded since count as those that the fit saw.
    """
    keep_beside(warehouse.home)
    kept = warehouse.query("fits", system=system.name).filter(
        pl.col("made_by").list.contains(code_digest(system)),
        model_version=system.version,
        row_filter=row_filter(system),
    )
    if tables is not None:
        kept = kept.filter(row_count=sum(table.height for table in tables.values()))
        if (runs := tables.get("run")) is not None and "elsewhere" in runs.columns:
            # The same runs tell something else to each of their hosts.
            kept = kept.filter(pl.col("host_id").is_in(_here(runs)))
    wanted = set(run_ids)
    fits = [row for row in kept.to_dicts() if set(row["run_ids"]) == wanted]
    return fits[-1] if fits else None


def pooled_runs(system: System, round_: Round) -> list[Run]:
    """Return the landed runs that one fit of a system to a whole round sees."""
    needed = {
        need: None
        for curve in round_.study.curves
        if curve.is_judged
        for need in round_input_runs(round_, system, curve)
    }
    return [run for need in needed if (run := round_.run_of(need))]


def landed_tables(system: System, runs: Iterable[Run], landing: Path) -> dict[str, pl.DataFrame]:
    """Return the tables that a system reads, with the rows of landed runs; no database is read."""
    by_run = [run_tables.tables(landing, run) for run in runs]
    return {name: _joined(name, by_run) for name in system.tables}


def _joined(name: str, by_run: Sequence[Mapping[str, pl.DataFrame]]) -> pl.DataFrame:
    tables = [of_run[name] for of_run in by_run if name in of_run]
    return pl.concat(tables) if tables else run_tables.no_rows(name)


# The way from visible rows to fits and predictions, and what has to be there before measuring.


@dataclass(frozen=True)
class CurveFit:
    """A system fitted to one curve of a round, and the record of that fit."""

    curve: Curve
    fitted: FittedSystem
    record: FitRecord


def fit_curves(
    system: System, round_: Round, warehouse: Warehouse, progress: Progress
) -> list[CurveFit]:
    """Fit a system to each curve of a round, on what predictors may see of its profile runs.

    Curves of which the system refuses all are left out, and, with a warning, those to which it
    cannot be fitted.

    Raises:
        BadInput: a curve has no profile in this round yet.
    """
    curves = [curve for curve in round_.study.curves if _asked_of(system, round_, curve)]
    if curves:
        progress.say(fit_name(system.name))
    return _fit(system, round_, curves, warehouse, progress)


def predict(fit: CurveFit, round_: Round, scenario: Scenario, progress: Progress) -> Prediction:
    """Return a fit's forecast of a scenario; tell where that is no more than an interval."""
    (row,) = fit.fitted.predict([scenario]).to_dicts()
    if row["value"] is None:
        progress.warn(
            f"{fit.record.system} only knows that {scenario.label} takes {row['low']:.3g} to "
            f"{row['high']:.3g} {fit.curve.metric.unit}: {row['unknown']}"
        )
    return Prediction(
        system=fit.record.system,
        model_version=fit.record.model_version,
        fit_id=fit.record.fit_id,
        subject_id=scenario.scenario_id,
        backend=round_.backend,
        host_id=round_.host_id,
        study=round_.study.name,
        repeat=round_.repeat,
        metric=fit.curve.metric.name,
        unit=fit.curve.metric.unit,
        value=row["value"],
        low=row["low"],
        high=row["high"],
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )


def predict_missing(
    system: System,
    round_: Round,
    warehouse: Warehouse,
    progress: Progress,
    fits: Sequence[CurveFit] | None = None,
) -> pl.DataFrame:
    """Write to the ledger what a system has not forecast for this round; return its ledger rows.

    A forecast that is there already is not made again, so an interrupted round keeps its own; but
    for one whose fit saw runs that do not serve any more (`Round.superseded`). What the system
    refuses is told with the reason, and so is what it cannot be fitted to. `fits` are what
    `fit_curves` returns, where that is at hand.

    Raises:
        BadInput: as `fit_curves`.
    """
    for reason, labels in _unpredicted(system, round_).items():
        progress.warn(f"{system.name} does not predict {name_some(labels)}: {reason}")
    ledger = _ledger(system, round_, warehouse)
    wanted = [
        (curve, scenario)
        for curve in round_.study.curves
        for scenario in _asked_of(system, round_, curve)
    ]
    known = set(ledger["subject_id"])
    missing = {curve: None for curve, scenario in wanted if scenario.scenario_id not in known}
    if fits is None and missing:
        fits = _fit(system, round_, list(missing), warehouse, progress)
    by_curve = {fit.curve: fit for fit in fits or ()}
    new: list[Prediction] = []
    left = [
        (by_curve[curve], scenario)
        for curve, scenario in wanted
        if scenario.scenario_id not in known and curve in by_curve
    ]
    if left:
        progress.say(f"predict {count(len(left), 'scenario')} by {system.name}")
        system.prepare([scenario for _, scenario in left])
    for fit, scenario in left:
        try:
            new.append(predict(fit, round_, scenario, progress))
        except NotCovered as error:
            progress.warn(f"{system.name} does not predict {scenario.label}: {error}")
    progress.finished(prediction_name(system.name))
    if not new:
        return ledger
    # Once for all curves: each change publishes the history anew.
    warehouse.record_predictions(new)
    return _ledger(system, round_, warehouse)


def check_predicted(round_: Round, ledger: pl.DataFrame) -> None:
    """Refuse to measure a scenario that no system has forecast.

    Args:
        round_: that is to be measured.
        ledger: study, repeat, backend, host_id, metric and subject_id of what was forecast.

    Raises:
        BadInput: the ledger lacks one; what is measured before it is predicted judges nothing.
    """
    columns = ["study", "repeat", "backend", "host_id", "metric", "subject_id"]
    predicted = set(ledger.select(columns).rows())
    key = (round_.study.name, round_.repeat, round_.backend, round_.host_id)
    for need in round_.missing:
        metric = PROBES[need.probe].metric
        if need.profiles or metric is None:
            continue
        if (*key, metric.name, need.scenario.scenario_id) not in predicted:
            raise BadInput(
                f"{need.title}: the ledger has no prediction of it for round {round_.repeat} of "
                f"{round_.study.name}, and what is measured before it is predicted judges nothing; "
                "if no chosen system could be fitted, choose another, or leave the scenario out"
            )


def _unpredicted(system: System, round_: Round) -> dict[str, list[str]]:
    """Return the labels of the scenarios of a round that a system does not predict, by reason."""
    labels: dict[str, list[str]] = {}
    for curve in round_.study.curves:
        for scenario, rests in _resting(system, round_, curve).items():
            if isinstance(rests, Refusal) and not rests.foreign:
                labels.setdefault(rests.reason, []).append(scenario.label)
    return labels


def _asked_of(system: System, round_: Round, curve: Curve) -> list[Scenario]:
    """Return the scenarios of a curve that a system forecasts."""
    by_scenario = _resting(system, round_, curve)
    return [scenario for scenario, rests in by_scenario.items() if not isinstance(rests, Refusal)]


def _resting(system: System, round_: Round, curve: Curve) -> InputRuns:
    """Return what forecasts of a curve rest on; nothing of one that is not judged."""
    return round_input_runs_by_scenario(round_, system, curve) if curve.is_judged else {}


def _ledger(system: System, round_: Round, warehouse: Warehouse) -> pl.DataFrame:
    """Return a system's forecasts for a round, without those that saw what serves no more."""
    forecasts = warehouse.predictions(round_.study.name, round_.repeat).filter(
        pl.col("system") == system.name,
        pl.col("backend") == round_.backend,
        pl.col("host_id") == round_.host_id,
    )
    if not (superseded := list(round_.superseded)):
        return forecasts
    saw = warehouse.query("fit_inputs", fit_id=None, system=system.name)
    outdated = saw.filter(pl.col("run_id").is_in(superseded))["fit_id"]
    return forecasts.filter(~pl.col("fit_id").is_in(outdated.to_list()))


def _fit(
    system: System, round_: Round, curves: Sequence[Curve], warehouse: Warehouse, progress: Progress
) -> list[CurveFit]:
    if not curves:
        return []
    warehouse.register(registered_of(system))
    shown = curves
    if system.pooled:
        shown = [curve for curve in round_.study.curves if _asked_of(system, round_, curve)]
    seen = {curve: tuple(run.run_id for run in _seen(system, round_, curve)) for curve in shown}
    if public := {curve for curve in shown if rests_on_public(system, curve, round_.backend)}:
        by_others = tuple(run.run_id for run in public_runs(warehouse))
        seen = {
            curve: (*ids, *by_others) if curve in public else ids for curve, ids in seen.items()
        }
    if system.pooled:
        everything = tuple(dict.fromkeys(chain(*seen.values())))
        seen = {curve: everything for curve in curves}
    # Read once for all curves: opening the database takes longer than reading it.
    rows = warehouse.visible_tables(system.tables, list(dict.fromkeys(chain(*seen.values()))))
    fitted: dict[tuple[str, ...], tuple[FittedSystem, FitRecord]] = {}
    for run_ids in dict.fromkeys(seen.values()):
        of_runs = pl.col("run_id").is_in(run_ids)
        fit_rows = {name: table.filter(of_runs) for name, table in rows.items()}
        tables = mark_foreign_hosts(fit_rows, round_.host_id)
        try:
            model = fit_or_load(system, run_ids, tables, warehouse)
        except BadInput as error:
            unfit = [
                curve.profiled(round_.backend).label
                for curve, ids in seen.items()
                if ids == run_ids
            ]
            progress.warn(f"{system.name} is left out for {name_some(unfit)}: {error}")
            continue
        record = record_of(
            system, model, run_ids, tables, backend=round_.backend, host_id=round_.host_id
        )
        fitted[run_ids] = model, record
    return [CurveFit(curve, *fitted[ids]) for curve, ids in seen.items() if ids in fitted]


def _seen(system: System, round_: Round, curve: Curve) -> list[Run]:
    """Return the runs that a system sees to predict a curve: profiles, links, and so on.

    Public measurements are of no round, and come beside these.

    Raises:
        BadInput: one of them has not landed in this round, or it rests on none.
    """
    needed = round_input_runs(round_, system, curve)
    runs = [run for need in needed if (run := round_.run_of(need))]
    learned = foreign_input_runs(system, round_, curve)
    if system.travels and round_.study.learns_from:
        _check_learned(system, round_, curve, learned)
    rests = needed or learned or rests_on_public(system, curve, round_.backend)
    if not rests or len(runs) < len(needed):
        probes = " and ".join(dict.fromkeys(need.probe for need in needed)) or "profile"
        raise BadInput(
            f"{system.name} cannot be fitted to {curve.profiled(round_.backend).label}: round "
            f"{round_.repeat} of {round_.study.name} has no {probes} run of it; profile it first"
        )
    return [*runs, *learned]


def _check_learned(system: System, round_: Round, curve: Curve, learned: Sequence[Run]) -> None:
    probes = {run.probe for run in learned}
    if absent := sorted(input_probes(system, curve, round_.backend) - probes):
        raise BadInput(
            f"{system.name}: learns_from: {', '.join(round_.study.learns_from)} have no profile "
            f"runs of {' and '.join(absent)}; name studies that have"
        )


def registered_of(system: System) -> RegisteredSystem:
    """Return what the ledger knows of a system."""
    return RegisteredSystem(name=system.name, what=system.what, source=system.source)
