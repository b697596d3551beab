"""How wrong Ceer is on DNNs that it has not seen, and on their operations (section V of Ceer)."""

import polars as pl

from forecasting.ceer_study import Measured
from models.ceer.evaluation import leave_out, operation_errors, rankings
from reports.html_table import Cell, table
from reports.wording import percent, share

_WORDS = {"": "all", "light": "without light and CPU operations", "overhead": "without S"}
_STEPS = (
    "<p>Steps of DNNs that were left out of fits, their operations known from their profiles: the "
    "test set together, and each DNN by itself. Mean absolute errors, and with sign. Steps with "
    "heavy operations that no other DNN has are not known.</p>"
)
_MOST_TYPES = 3  # named of those that were not seen

_OPERATIONS = (
    "<p>Operations of the test set, of all node types together: how many distinct ones, the mean "
    "absolute error of their times, the error of their sum, and which part of all time it is.</p>"
)
_RANKINGS = (
    "<p>Pairs of node types, with equal devices, that were forecast in the order in which they "
    "were measured. Pairs closer than {noise} are left out.</p>"
)


def section(measured: Measured, noise: float | None) -> str:
    """Return tables of errors on the test set; nothing where none of it was profiled.

    `noise` is the relative difference up to which two measured steps count as equal.
    """
    if not measured.unseen:
        return ""
    theirs = measured.operations.filter(pl.col("dnn").is_in(list(measured.unseen)))
    whole = measured.forecasts.filter(pl.col("without").list.len() == 0)
    parts = (
        ("Steps", _STEPS, _steps(measured)),
        ("Operations", _OPERATIONS, _operations(operation_errors(measured.model, theirs))),
        ("Order of node types", _RANKINGS.format(noise=share(noise or 0.0)), _order(whole, noise)),
    )
    return "".join(f"<h2>{title} of unseen DNNs</h2>{said}{shown}" for title, said, shown in parts)


def _steps(measured: Measured) -> str:
    """Return errors of the test set, whole and ablated, then of each DNN, with n."""
    without = pl.col("without").list.join(" ")
    body = [
        _errors(f"test set, {_WORDS[str(name)]}", one)
        for (name,), one in measured.forecasts.group_by(without, maintain_order=True)
    ]
    each = leave_out(measured.operations, measured.steps)
    body += [
        _errors(f"{dnn} by itself", one)
        for (dnn,), one in each.group_by("dnn", maintain_order=True)
    ]
    return table(("left out", "mean error", "with sign", "largest", "steps", "not known"), body)


def _errors(name: str, judged: pl.DataFrame) -> list[Cell]:
    error = 100 * pl.col("error")
    mean, signed, largest, n = judged.select(
        error.abs().mean().alias("mean"),
        error.mean().alias("signed"),
        error.abs().max().alias("largest"),
        error.count().alias("n"),
    ).row(0)
    return [
        Cell(name, is_number=False),
        *(Cell(percent(mean)), Cell(percent(signed, signed=True)), Cell(percent(largest))),
        *(Cell(str(n)), Cell(_not_known(judged))),
    ]


def _not_known(judged: pl.DataFrame) -> str:
    """Return how many steps have no prediction, and the types of operations for which."""
    unknown = judged.filter(pl.col("error").is_null())
    types = sorted(set(unknown["unseen"].explode(empty_as_null=False)))
    names = ", ".join(types[:_MOST_TYPES]) + ("…" if len(types) > _MOST_TYPES else "")
    return f"{len(unknown)} ({names})" if types else "0"


def _operations(errors: pl.DataFrame) -> str:
    """Return a line for each heavy type; node types count by the time that it takes on each."""
    n, part = pl.col("n"), pl.col("share")
    heavy = (
        errors.filter(pl.col("class") == "heavy")
        .group_by("type")
        .agg(
            n.sum(),
            ((n * pl.col("mean_absolute_error")).sum() / n.sum()).alias("error"),
            ((part * pl.col("sum_error")).sum() / part.sum()).alias("sum_error"),
            (part.sum() / errors["node_type"].n_unique()).alias("share"),
        )
        .sort("share", "type", descending=[True, False])
    )
    body = [
        [
            Cell(row["type"], is_number=False),
            Cell(str(row["n"])),
            Cell(share(row["error"])),
            Cell(percent(100 * row["sum_error"], signed=True)),
            Cell(share(row["share"])),
        ]
        for row in heavy.iter_rows(named=True)
    ]
    return table(("type", "operations", "mean error", "error of the sum", "share"), body)


def _order(judged: pl.DataFrame, noise: float | None) -> str:
    found = rankings(judged, noise or 0.0)
    found = found.group_by("dnn", maintain_order=True).agg(pl.col("pairs", "right", "close").sum())
    body = [
        [Cell(str(dnn), is_number=False), *(Cell(str(number)) for number in counts)]
        for dnn, *counts in found.iter_rows()
    ]
    return table(("DNN", "pairs", "right", "left out"), body)
