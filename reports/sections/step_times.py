"""Errors of step times of data-parallel training (Table 5 and Fig. 7 of Srift)."""

from collections.abc import Iterator

import polars as pl

from reports import study_plots
from reports.figure_html import captioned
from reports.html_table import Cell, table
from reports.wording import percent
from studies.study import Study

UNDERESTIMATED = 0.9
"""In this part of the scenarios step times are underestimated by at most what tables show."""
_HEAD = ("", "scenarios", "mean error", "mean absolute error", "largest", "underestimated by")
_SAID = (
    "<p>Of two or more nodes. In 90 % of the scenarios step times are <em>underestimated by</em> "
    "at most that much. Scenarios of one image on each node, where latency counts, are apart.</p>"
)


def section(study: Study, rows: pl.DataFrame) -> str:
    """Return errors by node types, nodes and batch, and the distribution of underestimation.

    Nothing if nothing was judged; `rows` of an outcome.
    """
    curves = [
        (" + ".join(sorted(set(curve.worker))), curve.batch_size == 1 and not curve.mix)
        for curve in study.curves
    ]
    of_curves = pl.DataFrame(curves, schema=["types", "single"], orient="row").with_row_index(
        "curve"
    )
    judged = rows.filter(pl.col("error_percent").is_not_null(), pl.col("workers") > 1).join(
        of_curves.with_columns(pl.col("curve").cast(rows.schema["curve"])), on="curve"
    )
    if judged.is_empty():
        return ""
    body = [_row(name, part) for name, part in _groups(judged)]
    figure = captioned(
        study_plots.underestimation(judged["error_percent"], UNDERESTIMATED),
        "Share of scenarios by how much their step times are underestimated",
        "Dotted: 90 % of the scenarios.",
    )
    return (
        f"<h2>Errors by node types and number of nodes</h2>{_SAID}{table(_HEAD, body)}"
        f"<h2>Underestimated step times</h2>{figure}"
    )


def _groups(judged: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    several = judged.filter(~pl.col("single"))
    for (name,), part in several.group_by("types", maintain_order=True):
        yield str(name), part
    for (workers,), part in several.sort("workers").group_by("workers", maintain_order=True):
        yield f"{workers} nodes", part
    yield "all", several
    yield "one image on each node", judged.filter("single")


def _row(name: str, judged: pl.DataFrame) -> list[Cell]:
    error = pl.col("error_percent")
    (found,) = judged.select(
        n=pl.len(),
        mean=error.mean(),
        absolute=error.abs().mean(),
        largest=error.abs().max(),
        under=(-error.quantile(1 - UNDERESTIMATED, "linear")).clip(lower_bound=0),
    ).to_dicts()
    return [
        Cell(name, is_number=False),
        Cell(str(found["n"])),
        Cell(percent(found["mean"], signed=True)),
        *(Cell(percent(found[what])) for what in ("absolute", "largest", "under")),
    ]
