"""Every predictor, what it may see, and the way from visible rows to fits and predictions."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import product
from typing import Protocol

import polars as pl

from assets.plan import prediction_name
from assets.progress import Progress
from assets.rounds import Probe, Round, parts
from assets.study import Job
from assets.version import code_version
from models import linear
from models.async_sgd import predictor as async_sgd
from warehouse.ledger import FitRecord
from warehouse.records import BadInput, Prediction, Run, Scenario
from warehouse.warehouse import Warehouse

METRIC, UNIT = "throughput_steps_per_s", "step/s"
Tables = Mapping[str, pl.DataFrame]
"""Visible rows by raw table."""


class Fitted(Protocol):
    """A fitted model."""

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low and high, one row per scenario."""

    def parameters_json(self) -> str:
        """Return the fitted parameters."""


@dataclass(frozen=True)
class System:
    """A predictor: `version` of its code, probes whose runs it sees, and of those which tables."""

    name: str
    version: str
    probes: tuple[Probe, ...]
    tables: tuple[str, ...]
    fit: Callable[[Tables], Fitted]


def _fit_async_sgd(tables: Tables) -> Fitted:
    return async_sgd.fit(
        runs=tables["run"],
        scenarios=tables["scenario"],
        operations=tables["operation"],
        edges=tables["edge"],
        timings=tables["timing"],
        steps=tables["step"],
        samples=tables["sample"],
        links=tables["link"],
    )


def _fit_linear(tables: Tables) -> Fitted:
    return linear.fit(runs=tables["run"], scenarios=tables["scenario"], samples=tables["sample"])


ASYNC_SGD = System(
    "async_sgd",
    "2",
    ("links", "tf_trace"),
    ("run", "scenario", "operation", "edge", "timing", "step", "sample", "link"),
    _fit_async_sgd,
)
LINEAR = System("linear", "1", ("tf_trace",), ("run", "scenario", "sample"), _fit_linear)
SYSTEMS = (ASYNC_SGD, LINEAR)


@dataclass(frozen=True)
class JobFit:
    """A system fitted to one job of a round, and the record of that fit."""

    job: Job
    fitted: Fitted
    record: FitRecord


def fit_jobs(system: System, round_: Round, warehouse: Warehouse) -> list[JobFit]:
    """Fit a system to each job of a round, on what predictors may see of its profile runs.

    Raises:
        BadInput: a job has no profile in this round yet.
    """
    return [_fit_job(system, round_, job, warehouse) for job in round_.study.jobs]


def predict(fit: JobFit, round_: Round, scenario: Scenario) -> Prediction:
    """Return a fit's forecast of a scenario."""
    (row,) = fit.fitted.predict([scenario]).to_dicts()
    return Prediction(
        system=fit.record.system,
        model_version=fit.record.model_version,
        fit_id=fit.record.fit_id,
        subject_id=scenario.scenario_id,
        backend=round_.backend,
        host_id=round_.host_id,
        study=round_.study.name,
        repeat=round_.repeat,
        metric=METRIC,
        unit=UNIT,
        value=row["value"],
        low=row["low"],
        high=row["high"],
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )


def predict_missing(
    system: System, round_: Round, warehouse: Warehouse, progress: Progress
) -> pl.DataFrame:
    """Write to the ledger what a system has not forecast for this round; return its ledger rows.

    A forecast that is there already is not made again, so an interrupted round keeps its own.

    Raises:
        BadInput: a job has no profile in this round yet.
    """
    known = set(_ledger(system, round_, warehouse)["subject_id"])
    for fit in fit_jobs(system, round_, warehouse):
        new = []
        for scenario in fit.job.scenarios(round_.backend):
            name = prediction_name(system.name, scenario)
            if scenario.scenario_id not in known:
                progress.say(name)
                new.append(predict(fit, round_, scenario))
            progress.finished(name)
        warehouse.record_predictions(new)
    return _ledger(system, round_, warehouse)


def refuse_unpredicted(round_: Round, ledger: pl.DataFrame) -> None:
    """Do nothing if the ledger holds every system's forecast of what a round still measures.

    Raises:
        BadInput: it does not; what is measured before it is predicted judges nothing.
    """
    columns = ["study", "repeat", "backend", "host_id", "metric", "system", "subject_id"]
    there = set(ledger.select(columns).rows())
    key = (round_.study.name, round_.repeat, round_.backend, round_.host_id, METRIC)
    for part, system in product(round_.missing_of("tf_throughput"), SYSTEMS):
        assert part.scenario is not None
        if (*key, system.name, part.scenario.scenario_id) not in there:
            raise BadInput(
                f"{part.name}: the ledger has no prediction by {system.name} for round "
                f"{round_.repeat} of {round_.study.name}; predict it before it is measured"
            )


def _ledger(system: System, round_: Round, warehouse: Warehouse) -> pl.DataFrame:
    return warehouse.predictions(round_.study.name, round_.repeat).filter(
        pl.col("system") == system.name,
        pl.col("metric") == METRIC,
        pl.col("backend") == round_.backend,
        pl.col("host_id") == round_.host_id,
    )


def _fit_job(system: System, round_: Round, job: Job, warehouse: Warehouse) -> JobFit:
    run_ids = [run.run_id for run in _seen(system, round_, job)]
    tables = {name: warehouse.visible(name, run_ids) for name in system.tables}
    fitted = system.fit(tables)
    record = FitRecord(
        system=system.name,
        model_version=system.version,
        parameters=json.loads(fitted.parameters_json()),
        run_ids=tuple(run_ids),
        row_filter=f"all visible rows of these runs in {', '.join(system.tables)}",
        row_count=sum(table.height for table in tables.values()),
        data_hash=_hash(tables),
        backend=round_.backend,
        host_id=round_.host_id,
        code_version=code_version(),
        created_at=datetime.now(UTC),
    )
    return JobFit(job, fitted, record)


def _seen(system: System, round_: Round, job: Job) -> list[Run]:
    """Return the runs of this job, and of the link it trains on, that a system sees."""
    profiled = job.profiled(round_.backend)
    speeds = {profiled.link_mbps, job.scenario(1, round_.backend).link_mbps}
    needed = [
        part
        for part in parts(round_.study, round_.backend)
        if part.probe in system.probes
        and (part.scenario == profiled or (part.scenario is None and part.link_mbps in speeds))
    ]
    found = [run for part in needed if (run := round_.run_of(part))]
    if len(found) < len(needed):
        raise BadInput(
            f"{system.name} cannot be fitted to {profiled.label}: round {round_.repeat} of "
            f"{round_.study.name} has no {' and '.join(system.probes)} run of it; profile it first"
        )
    return found


def _hash(tables: Tables) -> str:
    digest = sha256()
    for name, table in sorted(tables.items()):
        digest.update(f"{name}\n{table.write_csv()}".encode())
    return digest.hexdigest()[:16]
