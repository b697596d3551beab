"""What operations take, cost, and by how much they vary (section III of Ceer, Figs. 2 to 5)."""

from collections.abc import Sequence

import polars as pl

from forecasting.ceer_study import Measured, usd_per_hour
from models.ceer.analysis import deviations, type_times
from models.ceer.classes import Classes, shares
from models.ceer.features import table as sizes
from models.ceer.observed import computing
from models.ceer.regression import Regression, fit
from reports import ceer_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.wording import share, span

_FORM = {"linear": ("1", "input")}
_SHOWN = 3
"""Types whose time is shown by their input: those that take most."""
_CLASSES = (
    "<p>Heavy types take {threshold:g} ms or more in the mean on {slowest}, the slowest node type; "
    "CPU types have no GPU kernel. Shares of the time of all operations of a step.</p>"
)
_NONE_IS_HEAVY = "<p>No type takes that long here.</p>"
_REGRESSIONS = (
    "<p>What times of heavy types are fitted with: the forms that were chosen, and over node types "
    "the least and the largest R², and error of all operations of a DNN that was left out.</p>"
)


def section(measured: Measured) -> str:
    """Return figures and shares of the operations of DNNs that predictors saw."""
    operations, _ = measured.fitted
    rows, fitted = computing(operations), measured.model.parameters
    classes = fitted.classes
    said = _CLASSES.format(threshold=fitted.settings.threshold_us / 1e3, slowest=classes.slowest)
    if not classes.heavy:
        return f"<h2>Operations</h2>{said}{_NONE_IS_HEAVY}{_shares(rows, classes)}"
    heavy = type_times(rows, classes, usd_per_hour(measured)).filter(pl.col("class") == "heavy")
    figures = [("Time of heavy operations", _times(heavy))]
    if heavy["usd"].is_not_null().any():
        figures.append(("Cost of heavy operations", _costs(heavy)))
    figures.append(("How much they vary", _deviations(rows, classes)))
    figures += [(f"{kind} by input", _by_input(rows, kind)) for kind in _largest(rows, classes)]
    return (
        f"<h2>Operations</h2>{grid(figures)}{said}{_shares(rows, classes)}"
        f"{_REGRESSIONS}{_regressions(fitted.regressions, classes)}"
    )


def _times(heavy: pl.DataFrame) -> str:
    figure = ceer_plots.by_type(
        heavy.with_columns(ms=pl.col("mean_us") / 1e3), "ms", "ms of one operation"
    )
    slowest = heavy.sort("mean_us").row(-1, named=True)
    said = f"the longest is {slowest['type']} on {slowest['node_type']}"
    return captioned(
        figure, f"Mean time of heavy types; {said}", "Means over all DNNs that are fitted."
    )


def _costs(heavy: pl.DataFrame) -> str:
    figure = ceer_plots.by_type(
        heavy.drop_nulls("usd").with_columns(nanos=pl.col("usd") * 1e9),
        "nanos",
        "billionths of a dollar",
    )
    cheapest = heavy.drop_nulls("usd").sort("usd").unique("type", keep="first")
    won = cheapest["node_type"].value_counts().sort("count", "node_type", descending=[True, False])
    said = ", ".join(f"{name} for {n}" for name, n in won.iter_rows())
    return captioned(
        figure, f"Cost of heavy types; cheapest: {said}", f"Cheapest: {said} of {cheapest.height}."
    )


def _deviations(rows: pl.DataFrame, classes: Classes) -> str:
    heavy = deviations(rows, classes).filter(pl.col("class") == "heavy")
    within = (
        heavy.filter(pl.col("deviation") <= 0.1).group_by("node_type").agg(pl.col("share").max())
    )
    said = ", ".join(f"{name} {share(part)}" for name, part in within.sort("node_type").iter_rows())
    return captioned(
        ceer_plots.deviations(heavy),
        "Distribution of the normalised standard deviation of heavy operations",
        f"Over the traced steps. Below 0.1: {said or 'none'}.",
    )


def _largest(rows: pl.DataFrame, classes: Classes) -> list[str]:
    spent = (
        rows.filter(pl.col("type").is_in(classes.heavy))
        .group_by("type")
        .agg((pl.col("count") * pl.col("mean_us")).sum().alias("us"))
    )
    return spent.sort("us", "type", descending=[True, False])["type"].head(_SHOWN).to_list()


def _by_input(rows: pl.DataFrame, kind: str) -> str:
    mine = rows.filter(pl.col("type") == kind)
    points = pl.concat([mine, sizes(mine)], how="horizontal")
    lines, explained = {}, []
    for (name,), one in points.sort("node_type").group_by("node_type", maintain_order=True):
        found = fit(one, operation_type=kind, node_type=str(name), forms=_FORM, weights="equal")
        by = dict(zip(found.terms, found.coefficients_us, strict=True))
        lines[str(name)] = by.get("1", 0.0), by.get("input", 0.0)
        explained.append(found.r_squared)
    said = f"R² {span(explained, '{:.2f}')}"
    return captioned(
        ceer_plots.by_input(points, lines),
        f"Time of {kind} by size of input; {said}",
        f"Lines of least squares in the input alone, as in the paper's figure: {said}. "
        "What is fitted may see filters, outputs and multiplications too.",
    )


def _shares(rows: pl.DataFrame, classes: Classes) -> str:
    found = shares(rows, classes)
    head = ("DNN", "node type", "heavy", "light", "CPU")
    body = [
        [
            Cell(str(dnn), is_number=False),
            Cell(str(node_type), is_number=False),
            *(
                Cell(share(dict(one.select("class", "share").iter_rows()).get(name, 0.0)))
                for name in ("heavy", "light", "cpu")
            ),
        ]
        for (dnn, node_type), one in found.group_by("dnn", "node_type", maintain_order=True)
    ]
    return table(head, body)


def _regressions(found: Sequence[Regression], classes: Classes) -> str:
    body = []
    for kind in classes.heavy:
        mine = [one for one in found if one.type == kind]
        cells = (
            ", ".join(sorted({one.form for one in mine})),
            span([one.r_squared for one in mine], "{:.2f}"),
            span([one.sum_error for one in mine], "{:.1%}"),
        )
        points = max(one.points for one in mine)
        body.append([*(Cell(text, is_number=False) for text in (kind, *cells)), Cell(str(points))])
    return table(("type", "forms", "R²", "error of the sum", "operations"), body)
