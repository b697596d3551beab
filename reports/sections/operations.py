"""What operations take, cost, and by how much they vary (section III of Ceer, Figs. 2 to 5)."""

from collections.abc import Sequence

import polars as pl

from forecasting.findings.operations import ByInput, Operations, Regressions
from reports import ceer_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.wording import share, span

_CLASSES = (
    "<p>Heavy types take {threshold:g} ms or more in the mean on {slowest}, the slowest node type; "
    "CPU types have no GPU kernel. Shares of the time of all operations of a step.</p>"
)
_NONE_IS_HEAVY = "<p>No type takes that long here.</p>"
_REGRESSIONS = (
    "<p>What times of heavy types are fitted with: the forms that were chosen, and over node types "
    "the least and the largest R², and error of all operations of a DNN that was left out.</p>"
)


def section(found: Operations) -> str:
    """Return figures and shares of the operations of DNNs that predictors saw."""
    said = _CLASSES.format(threshold=found.threshold_us / 1e3, slowest=found.slowest)
    if not found.regressions:
        return f"<h2>Time of single operations</h2>{said}{_NONE_IS_HEAVY}{_shares(found.shares)}"
    figures = [("Time of heavy operations", _times(found.times))]
    if found.times["usd"].is_not_null().any():
        figures.append(("Cost of heavy operations", _costs(found.times)))
    figures.append(("How much they vary", _deviations(found.deviations)))
    figures += [(f"{one.type} by input", _by_input(one)) for one in found.by_input]
    return (
        f"<h2>Time of single operations</h2>{grid(figures)}{said}{_shares(found.shares)}"
        f"{_REGRESSIONS}{_regressions(found.regressions)}"
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


def _deviations(heavy: pl.DataFrame) -> str:
    within = (
        heavy.filter(pl.col("deviation") <= 0.1).group_by("node_type").agg(pl.col("share").max())
    )
    said = ", ".join(f"{name} {share(part)}" for name, part in within.sort("node_type").iter_rows())
    return captioned(
        ceer_plots.deviations(heavy),
        "Distribution of the normalised standard deviation of heavy operations",
        f"Over the traced steps. Below 0.1: {said or 'none'}.",
    )


def _by_input(found: ByInput) -> str:
    said = f"R² {span(found.r_squared, '{:.2f}')}"
    return captioned(
        ceer_plots.by_input(found.points, found.lines),
        f"Time of {found.type} by size of input; {said}",
        f"Lines of least squares in the input alone, as in the paper's figure: {said}. "
        "What is fitted may see filters, outputs and multiplications too.",
    )


def _shares(found: pl.DataFrame) -> str:
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


def _regressions(found: Sequence[Regressions]) -> str:
    body = []
    for one in found:
        cells = (
            ", ".join(one.forms),
            span(one.r_squared, "{:.2f}"),
            span(one.sum_error, "{:.1%}"),
        )
        names = (Cell(text, is_number=False) for text in (one.type, *cells))
        body.append([*names, Cell(str(one.points))])
    return table(("type", "forms", "R²", "error of the sum", "operations"), body)
