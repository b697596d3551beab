"""All that pages show of a round, computed: of its study, and of papers; kept fits are loaded."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forecasting import ceer_study
from forecasting.findings.async_sgd import (
    Comparison,
    Convergence,
    Http2,
    OverheadLine,
    Sensitivity,
    ServerPlacement,
    TracedSteps,
    comparisons,
    convergence,
    http2,
    overheads,
    servers,
    traced_steps,
    windows,
)
from forecasting.findings.ceer import (
    Devices,
    InstanceChoice,
    Operations,
    UnseenErrors,
    choices,
    devices,
    operations,
    unseen_errors,
)
from forecasting.findings.errors import RoundErrors, errors, largest_errors
from forecasting.findings.predictddl import Reuse, reuse
from forecasting.findings.srift import (
    Components,
    DataParallel,
    StepTimes,
    components,
    data_parallel,
    goodput,
    step_times,
)
from forecasting.findings.store import Store
from forecasting.findings.study import (
    OpeningFigures,
    RoundDescription,
    board,
    describe_round,
    judged_forecasts,
    opening_figures,
    per_dollar,
    with_pending,
)
from forecasting.packet_captures import captured_profiles, end_time_errors, kept_orders
from forecasting.results import Summary, by_system, outcome, summary
from forecasting.simulations import FittedModels
from studies.rounds import Round
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Captures:
    """What the packets of captured profiles show; without any, all of it is empty.

    Attributes:
        overheads: of received tensors.
        http2: how streams were served.
        end_times: rows of `forecasting.packet_captures.end_time_errors`.
        orders: rows of `forecasting.packet_captures.kept_orders`.
        windows: predictions with other flow-control windows.
    """

    overheads: tuple[OverheadLine, ...]
    http2: Http2 | None
    end_times: pl.DataFrame
    orders: pl.DataFrame
    windows: tuple[Sensitivity, ...]


@dataclass(frozen=True)
class OperationEvaluation:
    """What operations and steps of training by operations show; None: nothing."""

    operations: Operations
    devices: Devices | None
    unseen: UnseenErrors | None
    choices: tuple[InstanceChoice, ...]


@dataclass(frozen=True)
class Evaluation:
    """A round: how its predictions did, and why. None, or empty: nothing.

    Attributes:
        about: the round, and its runs.
        rows: a row for each scenario: see `forecasting.results.outcome` and
            `forecasting.findings.study`.
        systems: how wrong each system was: see `forecasting.results.by_system`.
        summary: the figures over all scenarios.
        opening: what the first screen says beside them.
        per_dollar: what a dollar trains: see `forecasting.findings.study`.
        published: how wrong forecasts were that had been published: see query `sealed`.
        decisions: what would have been rented by forecasts: see query `decisions`.
        board: all systems of the study where all forecast (query `board`); None: not asked.
        largest_errors: what they are due to: see `forecasting.findings.errors`.
    """

    about: RoundDescription
    rows: pl.DataFrame
    systems: pl.DataFrame
    summary: Summary
    opening: OpeningFigures
    per_dollar: pl.DataFrame | None
    published: pl.DataFrame | None
    decisions: pl.DataFrame | None
    board: pl.DataFrame | None
    largest_errors: pl.DataFrame | None


@dataclass(frozen=True)
class PaperEvaluation:
    """What papers show, of the runs and forecasts of a round. None, or empty: nothing.

    Attributes:
        about: the round, and its runs.
        errors: by network and batch size.
        comparisons: curves that differ in one thing.
        traced_steps: when resources are at work.
        convergence: how workers drift apart.
        servers: how variables are divided.
        captures: what packets show.
        links: their goodput: see `forecasting.findings.srift`.
        step_times: errors by node types and number of nodes.
        data_parallel: all-reduces and passes.
        components: errors of parts of a predictor.
        by_operations: operations, devices, unseen DNNs, and what to rent for them.
        reuse: how one model does for networks that never ran.
    """

    about: RoundDescription
    errors: RoundErrors | None
    comparisons: tuple[Comparison, ...]
    traced_steps: tuple[TracedSteps, ...]
    convergence: Convergence | None
    servers: tuple[ServerPlacement, ...]
    captures: Captures
    links: pl.DataFrame | None
    step_times: StepTimes | None
    data_parallel: DataParallel | None
    components: Components | None
    by_operations: OperationEvaluation | None
    reuse: Reuse | None


def evaluate(round_: Round, warehouse: Warehouse) -> Evaluation:
    """Return the evaluation of a round from what the history says of its predictions."""
    accuracy = warehouse.accuracy()
    rows = with_pending(round_, outcome(round_, accuracy), warehouse)
    systems = by_system(round_, accuracy)
    return evaluate_rows(round_, rows, systems, warehouse.landing, warehouse)


def evaluate_rows(
    round_: Round,
    rows: pl.DataFrame,
    systems: pl.DataFrame,
    landing: Path,
    warehouse: Warehouse | None = None,
) -> Evaluation:
    """Return the evaluation of a round whose predictions did so.

    Args:
        round_: that has landed.
        rows: as `forecasting.findings.study.with_pending` returns them.
        systems: as `forecasting.results.by_system` returns them.
        landing: where the runs of the round landed.
        warehouse: where fits are kept; None: nowhere.
    """
    study = round_.study.name
    return Evaluation(
        about=describe_round(round_),
        rows=rows,
        systems=systems,
        summary=summary(rows),
        opening=opening_figures(rows),
        per_dollar=per_dollar(round_, rows),
        published=warehouse.query("sealed", study=study) if warehouse else None,
        decisions=warehouse.query("decisions", study=study) if warehouse else None,
        board=None if warehouse is None else board(round_, warehouse),
        largest_errors=largest_errors(
            round_, rows, landing, FittedModels(round_, landing, warehouse)
        ),
    )


def evaluate_papers(round_: Round, warehouse: Warehouse) -> PaperEvaluation:
    """Return what papers show of a round, from what the history says of its predictions."""
    accuracy = warehouse.accuracy()
    rows = with_pending(round_, outcome(round_, accuracy), warehouse)
    judged = judged_forecasts(round_, accuracy)
    landing, study = warehouse.landing, round_.study
    models = FittedModels(round_, landing, warehouse)
    name = f"{study.name}.{round_.repeat}.{round_.backend}.{round_.host_id}"
    store = Store(warehouse.home, name)
    return PaperEvaluation(
        about=describe_round(round_),
        errors=errors(study, rows),
        comparisons=comparisons(study, rows),
        traced_steps=traced_steps(round_, landing),
        convergence=convergence(round_, landing, models),
        servers=servers(round_, landing, models),
        captures=_captures(round_, landing, models),
        links=goodput(round_, landing),
        step_times=step_times(study, rows) if round_.runs_of("torch_compute") else None,
        data_parallel=data_parallel(round_, landing),
        components=components(round_, landing, warehouse, store),
        by_operations=_by_operations(round_, summary(rows), landing, warehouse),
        reuse=reuse(round_, judged, landing, warehouse, store),
    )


def _by_operations(
    round_: Round, figures: Summary, landing: Path, warehouse: Warehouse
) -> OperationEvaluation | None:
    measured = ceer_study.read_measurements(round_, landing)
    if measured is None:
        return None
    model = ceer_study.fitted_model(round_, landing, warehouse)
    if model is None:
        return None
    noise = None if figures.noise_floor is None else figures.noise_floor / 100
    return OperationEvaluation(
        operations(measured, model),
        devices(measured),
        unseen_errors(measured, model, noise),
        choices(measured),
    )


def _captures(round_: Round, landing: Path, models: FittedModels) -> Captures:
    profiles = captured_profiles(round_, landing)
    seen = {profile.run.run_id for profile in profiles}
    by_run = {
        run.run_id: models[need]
        for need, run in round_.runs_of("tf_trace").items()
        if run.run_id in seen
    }
    return Captures(
        overheads(profiles),
        http2(profiles),
        end_time_errors(profiles),
        kept_orders(profiles),
        windows(profiles, by_run),
    )
