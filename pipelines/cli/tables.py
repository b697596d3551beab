"""Frames as text: tables for people, CSV and JSON for programs."""

import json
from typing import Literal

import polars as pl
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

Format = Literal["table", "csv", "json"]
_WIDTH_ELSEWHERE = 160
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
    """Print rows as a table; numbers are set to the right."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name, kind in frame.schema.items():
        table.add_column(name, justify="right" if kind.is_numeric() else "left", overflow="fold")
    for row in _flat(frame).rows():
        table.add_row(*(Text(_shown(value)) for value in row))
    console().print(table)
    typer.echo(f"{frame.height} row{'' if frame.height == 1 else 's'}")


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
