"""How wrong Ceer is on DNNs that it has not seen, and on their operations (section V of Ceer)."""

from dataclasses import dataclass

import polars as pl

from forecasting.ceer_study import Measured
from models.ceer.evaluation import leave_out, operation_errors, rankings
from models.ceer.predictor import Ceer


@dataclass(frozen=True)
class StepErrors:
    """Errors of the steps of DNNs that were left out of a fit, predicted / measured - 1.

    Attributes:
        dnn: left out by itself; None: the whole test set together.
        without: what was left out of predictions too, as `models.ceer.steps.Without`, sorted.
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
class Unseen:
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


def unseen(measured: Measured, model: Ceer, noise: float | None) -> Unseen | None:
    """Return errors on the test set; None where none of it was profiled.

    Args:
        measured: what a round measured.
        model: fitted to the DNNs that predictors saw.
        noise: relative difference up to which two measured steps count as equal.
    """
    if not measured.unseen:
        return None
    theirs = measured.operations.filter(pl.col("dnn").is_in(list(measured.unseen)))
    return Unseen(
        noise=noise,
        steps=_steps(measured),
        operations=_heavy(operation_errors(model, theirs)),
        rankings=_rankings(measured.whole_forecasts, noise or 0.0),
    )


def _steps(measured: Measured) -> tuple[StepErrors, ...]:
    without = pl.col("without").list.join(" ")
    together = measured.forecasts.group_by(without, maintain_order=True)
    each = leave_out(measured.operations, measured.steps).group_by("dnn", maintain_order=True)
    return (
        *(_errors(None, one) for _, one in together),
        *(_errors(str(dnn), one) for (dnn,), one in each),
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
    found = rankings(judged, noise)
    return found.group_by("dnn", maintain_order=True).agg(pl.col("pairs", "right", "close").sum())
