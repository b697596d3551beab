"""The page of error figures as Markdown: sealed ones, those of today's code, and of GPUs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from reports.html import Column, text_column

FILE = "accuracy.md"
_INTRO = """# How wrong were forecasts?

`make accuracy` makes this page: it rebuilds every forecast from `data/reference`, judges it, and
writes `.stepcast/accuracy/accuracy.md`. Errors are absolute and in percent of what was measured.
*n* counts judged scenarios. The *noise floor* is how far one measurement is off by itself, with
the number of scenarios that were measured more than once. *Inside* is the share of measurements
within the forecast's interval, whose nominal share is 90 %. The *split* says how far a scenario
is from all that the fit had seen ([glossary](glossary.md)). What was measured while the host was
busy judges nothing.
"""
_SEALED = """
## Sealed

These forecasts were published before anything of their study was measured. They are those of the
code of that day, and never change. `stepcast query sealed` prints the same rows in a home that
has them; `stepcast reproduce data/reference --study NAME` makes such a home for one study.
"""
_TODAY = """
## Today's code, after the fact

The same and further measurements, forecast anew by the code of this checkout. No forecast sees
the measurement that judges it, but whoever wrote the code had seen many. *Common* are the
scenarios that all systems of the study forecast; *own* are all that the system forecast itself.
`stepcast query board` prints these rows.
"""
_GPUS = """
## GPUs, by public measurements, after the fact

`stepcast bench gpu` prints these rows. What is judged is left out of its own fit:
operators' times, the host's times and widths of intervals; a device with all boards of its chip.
The form of the model was chosen while looking at these figures. *Goal* is what was aimed at.
*Beside it* is what others print of the same rows, or a simpler way; what errs by less is **bold**.

"""
_STUDY = "### [`{study}`](../studies/{study}.yaml)"
_Row = Mapping[str, Any]


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _noise(row: _Row) -> str:
    if row["noise_floor"] is None:
        return "not known"
    return f"{_percent(row['noise_floor'])} ({row['noise_n']})"


def _beside(row: _Row) -> str:
    """Return what others err by, in bold where that is less than we do."""

    def marked(percent: re.Match[str]) -> str:
        is_nearer = float(percent[1]) < round(row["error"], 1)
        return f"**{percent[0]}**" if is_nearer else percent[0]

    return re.sub(r"(\d+\.\d) %", marked, row["beside"])


_SYSTEM = text_column("system", format="`{}`".format)
_ERRORS = (
    Column("mean", "mape", _percent),
    Column("median", "median_ape", _percent),
    Column("largest", "max_ape", _percent),
)
_SEALED_TABLE = (
    text_column("split", format=lambda split: (split or "–").replace("_", " ")),
    _SYSTEM,
    Column("n"),
    *_ERRORS,
    Column("inside", "inside_percent", _percent),
    Column("noise floor (n)", _noise),
)
_BOARD_TABLE = (
    _SYSTEM,
    Column("own n", "covered"),
    Column("mean", "covered_mape", _percent),
    Column("common n", "n"),
    *_ERRORS,
    Column("noise floor (n)", _noise),
)
_GPU_TABLE = (
    text_column("judged on", "judged"),
    Column("n"),
    Column("mean", "error", _percent),
    Column("median", "median", _percent),
    Column("largest", "largest", _percent),
    text_column("goal", "goal"),
    Column("noise floor", "floor", _percent),
    text_column("beside it", _beside),
)


def page(sealed: pl.DataFrame, board: pl.DataFrame) -> str:
    """Return the page.

    Args:
        sealed: rows of the query `sealed`.
        board: rows of the query `board`.
    """
    lines = [_INTRO]
    if not sealed.is_empty():
        lines.append(_SEALED)
        for study, rows in _by_study(sealed):
            lines += ["", _STUDY.format(study=study), "", _when(rows), ""]
            lines += _table(_SEALED_TABLE, rows)
    lines.append(_TODAY)
    for study, rows in _by_study(board):
        lines += ["", _STUDY.format(study=study), ""]
        lines += _table(_BOARD_TABLE, rows)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def with_gpus(text: str, figures: Iterable[_Row]) -> str:
    """Return a page whose last section is that of GPUs.

    Args:
        text: of a page, with such a section or without.
        figures: rows of `benchmarks.gpu_figures.Figure`.
    """
    rest = text.partition(_GPUS.partition("`")[0].rstrip())[0].rstrip("\n")
    return f"{rest}\n{_GPUS}{chr(10).join(_table(_GPU_TABLE, figures))}\n"


def _by_study(frame: pl.DataFrame) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield studies in the order of their first rows, with all rows of each."""
    for study in frame["study"].unique(maintain_order=True):
        yield study, frame.filter(study=study).to_dicts()


def _when(rows: Sequence[_Row]) -> str:
    """Say when the forecasts of a study were sealed, and when the first of it was measured."""
    sealed, first = (
        max(row["sealed_at"] for row in rows),
        min(row["first_measured_at"] for row in rows),
    )
    return f"Sealed {sealed:%Y-%m-%d %H:%M}, first measured {first:%Y-%m-%d %H:%M} (UTC)."


def _table(columns: Sequence[Column], rows: Iterable[_Row]) -> Iterator[str]:
    """Yield the lines of a table; figures are set to the right."""
    yield f"| {' | '.join(column.title for column in columns)} |"
    yield f"|{''.join('---:|' if column.is_number else '---|' for column in columns)}"
    for row in rows:
        yield f"| {' | '.join(column.text(row) for column in columns)} |"
