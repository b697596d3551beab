"""What Ceer shows of operations, of a round: times, devices, unseen DNNs, choices of instances."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forecasting.ceer_study import (
    CeerMeasurements,
    fitted_model,
    read_measurements,
    usd_per_hour,
)
from models.ceer import overhead
from models.ceer.classes import Classes, deviations, scaling, shares, type_times
from models.ceer.evaluation import leave_out, operation_errors, rankings
from models.ceer.features import table as sizes
from models.ceer.operation_times import add_operation_types
from models.ceer.operations import select_computation
from models.ceer.predictor import Ceer
from models.ceer.recommendation import (
    DeviceOffer,
    InstanceCandidate,
    Objective,
    epochs,
    market_prices,
    price_epochs,
    recommend,
    regrets,
    scenarios,
)
from models.ceer.regression import fit
from profilers.clusters.node_types import node_types
from studies.rounds import Round
from warehouse.warehouse import Warehouse

# What operations take, cost, and by how much they vary (section III of Ceer, Figs. 2 to 5).


_FORM = {"linear": ("1", "input")}
_SHOWN = 3
"""Types whose time is shown by their input: those that take most."""


@dataclass(frozen=True)
class TimeByInput:
    """The time of operations of a heavy type by their input alone.

    Attributes:
        type: of the operations.
        points: node_type, input (megabytes) and mean_us.
        lines: by node type, what an operation takes, and what a megabyte more does, microseconds.
        r_squared: of each line.
    """

    type: str
    points: pl.DataFrame
    lines: Mapping[str, tuple[float, float]]
    r_squared: tuple[float | None, ...]


@dataclass(frozen=True)
class HeavyRegressions:
    """What the times of a heavy type are fitted with, on all node types.

    `sum_error` is that of all operations of a DNN that was left out; `points` the most operations
    that one of them saw.
    """

    type: str
    forms: tuple[str, ...]
    r_squared: tuple[float | None, ...]
    sum_error: tuple[float | None, ...]
    points: int


@dataclass(frozen=True)
class Operations:
    """The operations of DNNs that predictors saw.

    Attributes:
        threshold_us: types are heavy that take as long or longer in the mean on the slowest type.
        slowest: that node type.
        shares: dnn, node_type, class and share of the time of all operations.
        times: heavy types: type, node_type, mean_us and usd (of one operation), as
            `models.ceer.classes.type_times` returns them.
        deviations: heavy types: node_type, deviation and share, as `models.ceer.classes` has them.
        by_input: the heavy types that take most.
        regressions: of all heavy types.
    """

    threshold_us: float
    slowest: str
    shares: pl.DataFrame
    times: pl.DataFrame
    deviations: pl.DataFrame
    by_input: tuple[TimeByInput, ...]
    regressions: tuple[HeavyRegressions, ...]


def operations(measured: CeerMeasurements, model: Ceer) -> Operations:
    """Return what operations take; `model` is fitted to the DNNs that predictors saw."""
    classes, settings = model.parameters.classes, model.parameters.settings
    rows = add_operation_types(select_computation(measured.fitted[0]), settings)
    is_heavy = pl.col("class") == "heavy"
    return Operations(
        threshold_us=settings.threshold_us,
        slowest=classes.slowest,
        shares=shares(rows, classes),
        times=type_times(rows, classes, usd_per_hour(measured)).filter(is_heavy),
        deviations=deviations(rows, classes).filter(is_heavy),
        by_input=tuple(_by_input(rows, kind) for kind in _largest(rows, classes)),
        regressions=tuple(_regressions(model)),
    )


def _largest(rows: pl.DataFrame, classes: Classes) -> list[str]:
    spent = (
        rows.filter(pl.col("type").is_in(classes.heavy))
        .group_by("type")
        .agg((pl.col("count") * pl.col("mean_us")).sum().alias("us"))
    )
    return spent.sort("us", "type", descending=[True, False])["type"].head(_SHOWN).to_list()


def _by_input(rows: pl.DataFrame, kind: str) -> TimeByInput:
    of_kind = rows.filter(pl.col("type") == kind)
    points = pl.concat([of_kind, sizes(of_kind)], how="horizontal")
    lines, explained = {}, []
    for (name,), part in points.sort("node_type").group_by("node_type", maintain_order=True):
        regression = fit(
            part, operation_type=kind, node_type=str(name), forms=_FORM, weights="equal"
        )
        by = dict(zip(regression.terms, regression.coefficients_us, strict=True))
        lines[str(name)] = by.get("1", 0.0), by.get("input", 0.0)
        explained.append(regression.r_squared)
    return TimeByInput(
        kind, points.select("node_type", "input", "mean_us"), lines, tuple(explained)
    )


def _regressions(model: Ceer) -> Iterator[HeavyRegressions]:
    for kind in model.parameters.classes.heavy:
        regressions = [
            regression for regression in model.parameters.regressions if regression.type == kind
        ]
        yield HeavyRegressions(
            type=kind,
            forms=tuple(sorted({regression.form for regression in regressions})),
            r_squared=tuple(regression.r_squared for regression in regressions),
            sum_error=tuple(regression.sum_error for regression in regressions),
            points=max(regression.points for regression in regressions),
        )


# How much shorter epochs are on several devices, and S (sections III-D and IV-C of Ceer).


_SETUP = ("devices", "link_mbps")


@dataclass(frozen=True)
class StepOverhead:
    """S: what a step of so many devices takes beside its operations (Fig. 7).

    Attributes:
        devices: how many.
        link_mbps: between them; None: not shaped, or there is one device.
        rows: node_type, parameter_count and overhead_s.
        lines: by node type, seconds without parameters, and of each.
        r_squared: of each line.
    """

    devices: int
    link_mbps: float | None
    rows: pl.DataFrame
    lines: Mapping[str, tuple[float, float]]
    r_squared: tuple[float | None, ...]


@dataclass(frozen=True)
class Devices:
    """Steps of DNNs that predictors saw, on several devices.

    Attributes:
        relative: by DNN, node_type, devices and relative_time of an epoch to that of one device
            (Fig. 6).
        beside: S of each number of devices and link.
    """

    relative: Mapping[str, pl.DataFrame]
    beside: tuple[StepOverhead, ...]


def devices(measured: CeerMeasurements) -> Devices | None:
    """Return how the steps of DNNs that predictors saw scale; None without any."""
    operations, steps = measured.fitted
    if steps.is_empty():
        return None
    several = scaling(steps).filter(pl.col("devices").max().over("dnn") > 1)
    relative = {str(dnn): rows for (dnn,), rows in several.group_by("dnn", maintain_order=True)}
    rows = overhead.overheads(steps, operations)
    setups = rows.sort(_SETUP).partition_by(_SETUP, maintain_order=True)
    return Devices(relative, tuple(_beside(setup) for setup in setups))


def _beside(rows: pl.DataFrame) -> StepOverhead:
    fits = overhead.fit(rows, forms="paper", relative=False)
    count, link_mbps = rows.select(_SETUP).row(0)
    return StepOverhead(
        devices=count,
        link_mbps=link_mbps,
        rows=rows,
        lines={line.node_type: (line.intercept_s, line.per_parameter_s) for line in fits},
        r_squared=tuple(line.r_squared for line in fits),
    )


# How wrong Ceer is on DNNs that it has not seen, and on their operations (section V of Ceer).


@dataclass(frozen=True)
class StepErrors:
    """Errors of the steps of DNNs that were left out of a fit, predicted / measured - 1.

    Attributes:
        dnn: left out by itself; None: the whole test set together.
        without: what was left out of predictions too, as `models.ceer.predictor.Without`, sorted.
        mean: of absolute errors; None where no step is known, as in the next two.
        signed: mean error.
        largest: absolute error.
        n: steps that are known.
        unknown: steps that are not, because no other DNN has their heavy operations.
        types: of those operations, sorted.
    """

    dnn: str | None
    without: tuple[str, ...]
    mean: float | None
    signed: float | None
    largest: float | None
    n: int
    unknown: int
    types: tuple[str, ...]


@dataclass(frozen=True)
class UnseenErrors:
    """Errors on the test set.

    Attributes:
        noise: relative difference up to which two measured steps count as equal; None: not known.
        steps: of the test set, whole and ablated, then of each DNN.
        operations: type, n, error (mean of absolute values), sum_error and share of the time of
            all operations: of each heavy type; node types count by the time that it takes on each.
        rankings: dnn, and the pairs of node types, with equal devices, that were forecast in the
            measured order: pairs, right and close (left out as noise).
    """

    noise: float | None
    steps: tuple[StepErrors, ...]
    operations: pl.DataFrame
    rankings: pl.DataFrame


def unseen_errors(
    measured: CeerMeasurements, model: Ceer, noise: float | None
) -> UnseenErrors | None:
    """Return errors on the test set; None where none of it was profiled.

    Args:
        measured: what a round measured.
        model: fitted to the DNNs that predictors saw.
        noise: relative difference up to which two measured steps count as equal.
    """
    if not measured.unseen:
        return None
    operations = measured.operations.filter(pl.col("dnn").is_in(list(measured.unseen)))
    return UnseenErrors(
        noise=noise,
        steps=_steps(measured),
        operations=_heavy(operation_errors(model, operations)),
        rankings=_rankings(measured.whole_forecasts, noise or 0.0),
    )


def _steps(measured: CeerMeasurements) -> tuple[StepErrors, ...]:
    without = pl.col("without").list.join(" ")
    together = measured.forecasts.group_by(without, maintain_order=True)
    each = leave_out(measured.operations, measured.steps).group_by("dnn", maintain_order=True)
    return (
        *(_errors(None, rows) for _, rows in together),
        *(_errors(str(dnn), rows) for (dnn,), rows in each),
    )


def _errors(dnn: str | None, judged: pl.DataFrame) -> StepErrors:
    error = pl.col("error")
    mean, signed, largest, n = judged.select(
        error.abs().mean().alias("mean"),
        error.mean().alias("signed"),
        error.abs().max().alias("largest"),
        error.count().alias("n"),
    ).row(0)
    unknown = judged.filter(error.is_null())
    types = set(unknown["unseen"].explode(empty_as_null=False))
    return StepErrors(
        dnn=dnn,
        without=tuple(judged["without"][0]),
        mean=mean,
        signed=signed,
        largest=largest,
        n=n,
        unknown=unknown.height,
        types=tuple(sorted(types)),
    )


def _heavy(errors: pl.DataFrame) -> pl.DataFrame:
    n, share = pl.col("n"), pl.col("share")
    return (
        errors.filter(pl.col("class") == "heavy")
        .group_by("type")
        .agg(
            n.sum(),
            ((n * pl.col("mean_absolute_error")).sum() / n.sum()).alias("error"),
            ((share * pl.col("sum_error")).sum() / share.sum()).alias("sum_error"),
            (share.sum() / errors["node_type"].n_unique()).alias("share"),
        )
        .sort("share", "type", descending=[True, False])
    )


def _rankings(judged: pl.DataFrame, noise: float) -> pl.DataFrame:
    pairs = rankings(judged, noise)
    return pairs.group_by("dnn", maintain_order=True).agg(pl.col("pairs", "right", "close").sum())


# What Ceer, and rules of thumb, would have rented, judged by what was measured (Figs. 9 to 12).


@dataclass(frozen=True)
class InstanceChoice:
    """What is rented for an epoch of a DNN to an end, by forecast and by measurement.

    Attributes:
        objective: its name in `models.ceer.recommendation`.
        dnn: that is trained.
        chosen: by Ceer; None: nothing.
        best: of what was measured; None: nothing.
        regrets: by how much the choices of Ceer, of the cheapest and of the most powerful offer are
            above the best, relatively; infinite where one exceeds the budget, None: there is none.
    """

    objective: str
    dnn: str
    chosen: InstanceCandidate | None
    best: InstanceCandidate | None
    regrets: tuple[float | None, ...]


def choices(measured: CeerMeasurements) -> tuple[InstanceChoice, ...]:
    """Return the choices for each DNN of the test set, objective by objective.

    None where nodes have no price.
    """
    prices = usd_per_hour(measured)
    if not measured.unseen or set(prices) != set(measured.operations["node_type"]):
        return ()
    steps = measured.whole_forecasts.filter(pl.col("step_s").is_not_null())
    of_dnns = [
        choice
        for part in steps.partition_by("dnn", "image_size", "batch_size", maintain_order=True)
        for choice in _of_dnn(part, prices)
    ]
    order: list[str] = list(scenarios())
    return tuple(sorted(of_dnns, key=lambda choice: order.index(choice.objective)))


def _of_dnn(steps: pl.DataFrame, prices: Mapping[str, float]) -> Iterator[InstanceChoice]:
    most = steps["devices"].max()
    assert isinstance(most, int)
    bought = market_prices(prices, most)
    hourly = pl.Series([offer.usd_per_hour for offer in bought]).median()
    cost = _priced(steps, "step_s", bought)["cost_usd"].median()
    assert isinstance(hourly, float) and isinstance(cost, float)
    for objective in scenarios(hourly, cost).values():
        at_market = objective.name == "market_prices"
        offers = market_prices(_by_share(prices), most) if at_market else bought
        yield _choice(steps, offers, objective)


def _choice(
    steps: pl.DataFrame, offers: Sequence[DeviceOffer], objective: Objective
) -> InstanceChoice:
    recommended = recommend(_priced(steps, "step_s", offers), objective)
    truth = _priced(steps, "measured_s", offers)
    return InstanceChoice(
        objective=objective.name,
        dnn=str(steps["dnn"][0]),
        chosen=recommended.choice,
        best=recommend(truth, objective).choice,
        regrets=tuple(regrets(recommended, truth).values()),
    )


def _priced(steps: pl.DataFrame, column: str, offers: Sequence[DeviceOffer]) -> pl.DataFrame:
    """Return what epochs take and cost, from the step times of a column."""
    return price_epochs(epochs(steps.with_columns(step_s=pl.col(column))), offers)


def _by_share(prices: Mapping[str, float]) -> Mapping[str, float]:
    """Return what node types cost if the dearest keeps its price, and others have it by share."""
    known = node_types()
    shares = {name: known[name].cpu_share or 1.0 for name in prices}
    dearest = max(prices, key=lambda name: (prices[name], name))
    return {name: prices[dearest] * share / shares[dearest] for name, share in shares.items()}


# All that Ceer shows, of a round.


@dataclass(frozen=True)
class CeerFindings:
    """What operations and steps of training by operations show; None: nothing."""

    operations: Operations
    devices: Devices | None
    unseen: UnseenErrors | None
    choices: tuple[InstanceChoice, ...]


def ceer_findings(
    round_: Round, noise: float | None, landing: Path, warehouse: Warehouse
) -> CeerFindings | None:
    """Return what Ceer shows, of a round; None where no operations were profiled.

    Args:
        round_: that has landed.
        noise: relative difference up to which two measured steps count as equal.
        landing: where.
        warehouse: where fits are kept.
    """
    measured = read_measurements(round_, landing)
    model = None if measured is None else fitted_model(round_, landing, warehouse)
    if measured is None or model is None:
        return None
    return CeerFindings(
        operations(measured, model),
        devices(measured),
        unseen_errors(measured, model, noise),
        choices(measured),
    )
