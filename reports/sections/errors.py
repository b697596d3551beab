"""Error by network, batch size and workers (Figs. 13, 14 and 17 of the ICPE'20 paper)."""

import polars as pl

from reports import study_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.results import apart
from reports.wording import percent
from studies.study import Study

_HEAD = ("network", "batch size", "scenarios", "mean error", "mean absolute error", "largest")


def section(study: Study, rows: pl.DataFrame) -> str:
    """Return a table by network and batch size and a figure by network; `rows` of an outcome.

    Nothing if nothing was judged. Scenarios with one worker are in the figures alone.
    """
    batches = [curve.batch_size for curve in study.curves]
    judged = rows.filter(pl.col("error_percent").is_not_null()).with_columns(
        batch_size=pl.col("curve").replace_strict(range(len(batches)), batches)
    )
    if judged.is_empty():
        return ""
    error = pl.col("error_percent")
    figures = (
        judged.filter(pl.col("workers") > 1)
        .group_by("dnn", "batch_size")
        .agg(n=pl.len(), mean=error.mean(), absolute=error.abs().mean(), largest=error.abs().max())
        .sort("dnn", "batch_size")
    )
    body = [
        [
            Cell(row["dnn"], is_number=False),
            Cell(str(row["batch_size"])),
            Cell(str(row["n"])),
            Cell(percent(row["mean"], signed=True)),
            Cell(percent(row["absolute"])),
            Cell(percent(row["largest"])),
        ]
        for row in figures.to_dicts()
    ]
    drawn = [_figure(one) for one in judged.partition_by("dnn", maintain_order=True)]
    return (
        "<h2>Errors by network and batch size</h2><p>The table is of two or more workers.</p>"
        f"{table(_HEAD, body)}<p></p>{grid(drawn)}"
    )


def _figure(rows: pl.DataFrame) -> tuple[str, str]:
    dnn = rows["dnn"][0]
    curves = rows.partition_by("curve", maintain_order=True)
    names = apart([one["title"][0].removeprefix(f"{dnn} ") for one in curves])
    series = list(zip(names, curves, strict=True))
    described = f"Error of predicted throughput by number of workers, {dnn}"
    return dnn, captioned(study_plots.errors(series), described, "Band: ±10 %.")
