"""How long systems have others measure before they can answer (Fig. 13 of PredictDDL)."""

import polars as pl

from reports import reuse_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.reuse_wording import drawn
from reports.wording import DASH, percent

TITLE = "Time before an answer"
_COUNTS = {2: "2.6 x", 4: "5.1 x", 6: "7.7 x", 8: "10.3 x"}
"""Numbers of workloads in the paper's Fig. 13, and Ernest's time over PredictDDL's there."""
_WAITING = (
    "<p>A workload is a network that was judged, in the order of the study. Where forecasts by "
    "Ernest's own runs were judged, in any study, only the scenarios that it forecast count, for "
    "all systems. Measuring counts by the clock, one run after another, and what serves several "
    "workloads once. Ernest's own runs that no study measured count as a plan expects them (*).</p>"
)
_COMPARED = (
    "<p>Ernest measures each workload; PredictDDL learns once, from runs of other networks. Its "
    "fit, embeddings and forecasts are seconds of one core, measured once for these runs. Graphs "
    "were at hand: <code>stepcast bench predictddl</code> counts their tracing too. The embedder's "
    "training, once for a type of dataset, is not in it. The paper counts training and inference, "
    "and does not say whether the runs that PredictDDL learns from are in it.</p>"
)


def section(waiting: pl.DataFrame, compared: pl.DataFrame) -> str:
    """Return seconds and errors of each system by number of workloads, and Ernest's over ours.

    Args:
        waiting: rows of `forecasting.findings.waiting`.
        compared: rows of `forecasting.findings.answering`.
    """
    if waiting.is_empty():
        return f"<h2>{TITLE}</h2><p>No system rests on runs of this round.</p>"
    ratios = f"{_COMPARED}{_ratios(compared)}" if compared.height else ""
    figures = grid([_measuring(waiting, compared), _errors(waiting)])
    return f"<h2>{TITLE}</h2>{_WAITING}{_waited(waiting)}{ratios}<p></p>{figures}"


def in_short(waiting: pl.DataFrame, compared: pl.DataFrame) -> str:
    """Return how Ernest's time compares for all workloads in one line; else what each waits."""
    if compared.height:
        row = compared.row(-1, named=True)
        return (
            f"{row['workloads']} workloads: ernest {row['ernest_s']:,.0f} s, "
            f"{_times(row['ratio'])} as long as predictddl; {_times(row['ratio_with_runs'])} if "
            "the runs that it learns from count"
        )
    last = waiting.filter(pl.col("workloads") == pl.col("workloads").max())
    return "; ".join(
        f"{row['system']}{' *' if row['expected'] else ''}, {row['workloads']} workloads: "
        f"{row['measuring_s']:,.0f} s"
        for row in drawn(last, "system").iter_rows(named=True)
    )


def _measuring(waiting: pl.DataFrame, compared: pl.DataFrame) -> tuple[str, str]:
    """Return seconds by number of workloads; systems that wait alike are one line."""
    starred = waiting.with_columns(
        of=pl.when(pl.col("expected").any().over("system"))
        .then(pl.format("{} *", "system"))
        .otherwise("system")
    )
    alike = starred.group_by("of", maintain_order=True).agg("workloads", "measuring_s")
    names = alike.group_by("workloads", "measuring_s", maintain_order=True).agg(
        pl.when(pl.len() > 1)
        .then(pl.format("{} and {} alike", pl.col("of").first(), pl.len() - 1))
        .otherwise(pl.col("of").first())
        .alias("of")
    )
    ours = compared.select(
        "workloads", measuring_s="answering_s", of=pl.lit("predictddl: fit and forecasts only")
    )
    lines = pl.concat(
        one.select("of", "workloads", "measuring_s")
        for one in (names.explode("workloads", "measuring_s"), ours)
    )
    figure = reuse_plots.by_workloads(lines, "measuring_s", "seconds before an answer")
    said = "Seconds before an answer by number of workloads"
    return "Measuring", captioned(figure, said, "Fewer are better. *: expected by a plan.")


def _errors(waiting: pl.DataFrame) -> tuple[str, str]:
    rows = drawn(waiting, "system").rename({"system": "of"})
    figure = reuse_plots.by_workloads(rows, "error_percent", "mean absolute error, %")
    said = "Mean absolute error by number of workloads"
    return "Errors", captioned(figure, said, "Of all judged scenarios of so many workloads.")


def _shown(counts: pl.Series) -> list[int]:
    """Return the paper's numbers of workloads and the largest, of those that there are."""
    there = set(counts)
    return sorted({*_COUNTS.keys() & there, max(there)})


def _waited(waiting: pl.DataFrame) -> str:
    shown = _shown(waiting["workloads"])
    body = []
    for (name,), one in waiting.group_by("system", maintain_order=True):
        seconds = dict(one.select("workloads", "measuring_s").iter_rows())
        star = " *" if one["expected"].any() else ""
        last = one.tail(1).row(0, named=True)
        body.append(
            [
                Cell(f"{name}{star}", is_number=False),
                *(Cell(f"{seconds[n]:,.0f} s" if n in seconds else DASH) for n in shown),
                Cell(percent(last["error_percent"])),
                Cell(str(last["n"])),
            ]
        )
    head = ("system", *(f"{n} workloads" for n in shown), "error, all of these", "n")
    return table(head, body)


def _ratios(compared: pl.DataFrame) -> str:
    shown = _shown(compared["workloads"])
    body = [
        [
            Cell(str(row["workloads"])),
            Cell(f"{row['ernest_s']:,.0f} s"),
            Cell(f"{row['answering_s']:,.1f} s"),
            Cell(f"{row['learning_s']:,.0f} s"),
            Cell(_times(row["ratio"])),
            Cell(_times(row["ratio_with_runs"])),
            Cell(_COUNTS.get(row["workloads"], DASH)),
        ]
        for row in compared.filter(pl.col("workloads").is_in(shown)).iter_rows(named=True)
    ]
    head = (
        "workloads",
        "Ernest's own runs",
        "PredictDDL's fit and forecasts",
        "runs it learns from",
        "Ernest over fit and forecasts",
        "over these and the runs",
        "in the paper",
    )
    return table(head, body)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.2f} x"
