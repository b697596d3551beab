"""`stepcast compare`: what differs between two sides of the history, beside the noise floor."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import polars as pl
import typer

from pipelines.cli.ask import Form, history_here
from pipelines.cli.tables import Column, print_frame, print_rows, print_text
from pipelines.sides import Side, difference, two_sides
from reports.wording import percent
from studies.words import count
from warehouse.records import BadInput

MUCH = 3.0
"""How many times the noise floor is marked twice."""
_SMALL = 0.05
_COLUMNS = (
    Column("configuration", is_key=True, is_heading=True),
    Column("metric", is_key=True),
    Column("base", is_key=True, is_number=True),
    Column("other", is_key=True, is_number=True),
    Column("difference", is_key=True, is_number=True),
    Column("", is_key=True),
    Column("noise floor", is_number=True),
    Column("times", is_number=True),
)
_Row = Mapping[str, Any]


def compare(
    base: Annotated[str, typer.Argument(help="What is compared with, as KIND:VALUE.")],
    other: Annotated[str, typer.Argument(help="What is compared, as KIND:VALUE.")],
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    most: Annotated[int, typer.Option(min=1, help="Rows of the table; the rest is counted.")] = 40,
    form: Form = "table",
) -> None:
    """Show what differs between two sides of the history, and mark what exceeds its noise floor.

    A side is round:STUDY/2, round:STUDY/2..4, date:2026-10, date:2026-10-01..2026-10-15,
    type:NODE_TYPE, software:torch=2.9 or code:VERSION; parts joined by commas all have to hold.

    Only figures of equal configuration are compared: same probe, scenario, settings, backend and
    host. Between two node types, all but the type of the workers is equal.

    The noise floor is the mean error of forecasting each run by its repeats in other rounds. Where
    there are none it is that of windows within runs; where there are none either, it is unknown.

    Example: stepcast compare round:demo/1 round:demo/2

    Example: stepcast compare type:emu.avx2.s15 type:emu.avx512.s15 --metric step_time_s

    Example: stepcast compare date:2026-10 date:2026-11 --format csv
    """
    warehouse = history_here()
    sides = two_sides(base, other, warehouse.query("comparable_runs"))
    between_types = "type" in sides[0].kinds
    rows = warehouse.query(
        "differences",
        base=json.dumps(sides[0].run_ids),
        other=json.dumps(sides[1].run_ids),
        between_types=between_types,
    )
    if metric is not None:
        rows = _of_metric(rows, metric)
    if form == "table":
        _print(rows, sides, most, between_types=between_types)
    else:
        print_frame(rows, form)


def _of_metric(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return the rows of a metric.

    Raises:
        BadInput: neither side has it.
    """
    known = sorted(rows["metric"].unique())
    if metric not in known:
        raise BadInput(f"--metric {metric}: neither side has it; they have {', '.join(known)}")
    return rows.filter(metric=metric)


def _print(rows: pl.DataFrame, sides: Sequence[Side], most: int, *, between_types: bool) -> None:
    for title, side in zip(("base", "other"), sides, strict=True):
        began, ended = (f"{one:%Y-%m-%d %H:%M}" for one in _first_and_last(side))
        print_text(f"{title:<6}{side.text}: {count(len(side.run_ids), 'run')}, {began} to {ended}")
    both = rows.filter(pl.col("base").is_not_null() & pl.col("other").is_not_null())
    if both.height:
        shown = both.head(most).to_dicts()
        print_rows(_COLUMNS, _cells(shown, between_types=between_types))
        print_text("* differs by more than its noise floor   ** by more than three times that")
        print_text("noise floor: n runs forecast by their repeats, or n windows within runs (w)")
    else:
        print_text(f"Nothing can be compared: {difference(sides)}.")
    print_text(closing(rows, both))
    if both.height > most:
        print_text(f"{both.height - most} more rows: --most {both.height}, or --format csv")


def _first_and_last(side: Side) -> tuple[Any, Any]:
    return side.runs["started_at"].min(), side.runs["started_at"].max()


def _cells(rows: Sequence[_Row], *, between_types: bool) -> list[list[str]]:
    return [
        [
            _configuration(row, between_types=between_types),
            f"{row['metric']}, {row['unit']}",
            f"{row['base']:.4g}",
            f"{row['other']:.4g}",
            _percent(row["difference_percent"], signed=True),
            _mark(row),
            _noise(row),
            "" if row["times_noise"] is None else f"{row['times_noise']:.1f}",
        ]
        for row in rows
    ]


def _configuration(row: _Row, *, between_types: bool) -> str:
    """Name a configuration; between two node types, without the type."""
    label, node_type = row["label"], row["node_type"]
    if between_types:
        label = label.replace(node_type, "nodes")
    elif node_type is not None and node_type not in label:
        label = f"{label}, {node_type}"
    return f"{label}: {row['point']}" if row["point"] else label


def _noise(row: _Row) -> str:
    if row["noise_percent"] is None:
        return "unknown"
    within = "w" if row["noise_of"] == "windows" else ""
    return f"{_percent(row['noise_percent'])} (n = {row['noise_n']}{within})"


def _percent(value: float | None, *, signed: bool = False) -> str:
    """Return a percentage; what rounds to nothing keeps a digit that is not 0."""
    if value is None or value == 0 or abs(value) >= _SMALL:
        return percent(value, signed=signed)
    return f"{value:{'+' if signed else ''}.1g} %".replace("-", "−")


def _mark(row: _Row) -> str:
    if not row["is_larger"]:
        return ""
    times = row["times_noise"]
    return "**" if times is None or times > MUCH else "*"


def closing(rows: pl.DataFrame, both: pl.DataFrame) -> str:
    """Say how many figures differ by more than their noise, and how many could not be compared."""
    marks = [_mark(row) for row in both.to_dicts()]
    unknown = both["is_larger"].null_count()
    alone = [rows[side].is_not_null().sum() - both.height for side in ("base", "other")]
    told = [
        f"More than the noise floor separates {len(marks) - marks.count('')} of "
        f"{count(both.height, 'figure')}, more than three times that {marks.count('**')}"
    ]
    if unknown:
        told.append(f"for {unknown} the noise floor is unknown")
    if any(alone):
        told.append(
            f"without counterpart are {sum(alone)} ({alone[0]} of base, {alone[1]} of other)"
        )
    return "; ".join(told) + "."
