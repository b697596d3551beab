"""Frames as text: tables for people, CSV and JSON for programs."""

import json
from collections.abc import Sequence
from typing import Literal

import polars as pl
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

Format = Literal["table", "csv", "json"]
_WIDTH_ELSEWHERE = 160
_GAP = "  "
_NESTED = (pl.List, pl.Array, pl.Struct)


def console() -> Console:
    """Return stdout: as wide as the terminal, wide where there is none."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=_WIDTH_ELSEWHERE)


def print_frame(frame: pl.DataFrame, form: Format) -> None:
    """Print rows in the form asked for."""
    if form == "csv":
        typer.echo(_flat(frame).write_csv(), nl=False)
    elif form == "json":
        typer.echo(json.dumps(frame.to_dicts(), default=str, ensure_ascii=False))
    else:
        print_table(frame)


def print_table(frame: pl.DataFrame) -> None:
    """Print rows as a table, or as records where their columns do not fit side by side."""
    out = console()
    rows = [[_shown(value) for value in row] for row in _flat(frame).rows()]
    if sum(len(name) + len(_GAP) for name in frame.columns) <= out.width:
        out.print(_table(frame.schema, rows))
    else:
        _print_records(frame.columns, rows)
    typer.echo(f"{frame.height} row{'' if frame.height == 1 else 's'}")


def _table(schema: pl.Schema, rows: Sequence[Sequence[str]]) -> Table:
    """Return a table; numbers are set to the right, long texts wrap."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name, kind in schema.items():
        side: Literal["left", "right"] = "right" if kind.is_numeric() else "left"
        table.add_column(name, justify=side, overflow="fold", min_width=len(name))
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print_records(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a line for each column of each row."""
    widest = max(map(len, names))
    for number, row in enumerate(rows, start=1):
        typer.echo(f"row {number}")
        for name, value in zip(names, row, strict=True):
            typer.echo(f"{_GAP}{name:<{widest}}{_GAP}{value}")


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Turn nested columns into JSON text."""
    nested = [name for name, kind in frame.schema.items() if isinstance(kind, _NESTED)]
    texts = {
        name: [
            None if one is None else json.dumps(one, default=str) for one in frame[name].to_list()
        ]
        for name in nested
    }
    return frame.with_columns(
        **{name: pl.Series(text, dtype=pl.String) for name, text in texts.items()}
    )


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
