"""Tables and text for people, as wide as their terminal; CSV and JSON for programs.

A table has a line a row, and its values go on below where they are wider than their column. Where
not even their words fit beside each other, a row is a list of `name: value`. No value is cut.
"""

import json
import math
import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, TextIO

import typer

from warehouse import limits
from warehouse.records import BadInput

if TYPE_CHECKING:
    import polars as pl

Format = Literal["table", "csv", "json"]
PIPE_COLUMNS = 160
"""How wide tables are that no terminal shows, if COLUMNS does not say."""
_GAP = "  "
Row = Mapping[str, str]
"""Values of a table by the titles that stand above them, from left to right; each row has all."""


def columns_of_terminal() -> int:
    """Return how wide lines may be: as COLUMNS says, else the terminal, else `PIPE_COLUMNS`."""
    return _columns_of(sys.stdout) or PIPE_COLUMNS


def print_text(*texts: str, err: bool = False) -> None:
    """Print texts, on stderr if `err`; lines that are too wide for the terminal end between words.

    A line goes on below its first word, two columns further in. In a pipe it stays whole, unless
    COLUMNS says how wide lines may be.
    """
    width = _columns_of(sys.stderr if err else sys.stdout)
    for line in (line for text in texts for line in text.split("\n")):
        typer.echo(line if width is None else _filled(line, width), err=err)


def tell(*texts: str) -> None:
    """Print texts on stderr."""
    print_text(*texts, err=True)


def _columns_of(stream: TextIO) -> int | None:
    """Return how wide the lines of a stream may be; None if nothing says so."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # a pipe; or a buffer, which has no descriptor
        return None


def _filled(line: str, width: int) -> str:
    """Return a line, or several that end between words."""
    if len(line) <= width:
        return line
    first = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line.strip(),
        max(width, len(first) + 20),
        initial_indent=first,
        subsequent_indent=first + _GAP,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_frame(frame: "pl.DataFrame", form: Format) -> None:
    """Print rows in the form asked for."""
    print_frames([frame], form)


def print_frames(frames: "Iterable[pl.DataFrame]", form: Format) -> None:
    """Print rows as `print_frame`; CSV and JSON as they come. There is a frame, maybe an empty one.

    Raises:
        BadInput: a table has more than `limits.SQL_TABLE_VALUES` values.
    """
    if form == "csv":
        for number, frame in enumerate(frames):
            typer.echo(_flat(frame).write_csv(include_header=not number), nl=False)
    elif form == "json":
        between = "["
        for frame in frames:
            for row in frame.iter_rows(named=True):
                typer.echo(between + _in_json(row), nl=False)
                between = ", "
        typer.echo("[]" if between == "[" else "]")
    else:
        print_table(_whole(frames))


def _whole(frames: "Iterable[pl.DataFrame]") -> "pl.DataFrame":
    import polars as pl

    kept, values = [], 0
    for frame in frames:
        values += frame.height * frame.width
        if values > limits.SQL_TABLE_VALUES:
            raise BadInput(
                f"a table of more than {limits.SQL_TABLE_VALUES:,} values is not for people; ask "
                "for fewer rows, or all with --format csv"
            )
        kept.append(frame)
    return pl.concat(kept)


def _in_json(value: object) -> str:
    """Return JSON, where numbers that are none (NaN, Infinity) are null."""
    try:
        return json.dumps(value, default=str, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=str, ensure_ascii=False)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(frame: "pl.DataFrame") -> None:
    """Print rows as a table, then their number."""
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    flat = _flat(frame).iter_rows(named=True)
    rows = [{name: _in_words(value) for name, value in row.items()} for row in flat]
    print_rows(rows, numbers, titles=frame.columns)
    typer.echo(f"{frame.height} row{'' if frame.height == 1 else 's'}")


def print_rows(
    rows: Sequence[Row],
    numbers: Collection[str] = (),
    *,
    titles: Sequence[str] = (),
    has_headings: bool = False,
    under: Sequence[Sequence[str]] = (),
) -> None:
    """Print a table, an empty line before and after it.

    Args:
        rows: values by title.
        numbers: titles of what is set to the right.
        titles: where there may be no rows.
        has_headings: whether first values stand on a line of their own above their rows.
        under: lines below each row; none if left out.
    """
    width = columns_of_terminal()
    lines = table_lines(rows, width, numbers, titles=titles, has_headings=has_headings, under=under)
    typer.echo("\n".join(["", *lines, ""]))


def table_lines(
    rows: Sequence[Row],
    width: int,
    numbers: Collection[str] = (),
    *,
    titles: Sequence[str] = (),
    has_headings: bool = False,
    under: Sequence[Sequence[str]] = (),
) -> Iterator[str]:
    """Yield the lines of a table, of so many columns at most; see `print_rows`."""
    first = int(has_headings)
    shown = [*(titles or (rows[0] if rows else ()))][first:]
    cells = [[_printable(value) for value in row.values()] for row in rows]
    widths = _widths(shown, [row[first:] for row in cells], width, numbers)
    if widths is not None:
        yield from _lines(shown, shown, widths, numbers)
        yield "─" * min(sum(widths) + len(_GAP) * (len(widths) - 1), width)
    heading = None
    for number, row in enumerate(cells):
        if first and row[0] != heading:
            heading = row[0]
            yield from _filled(heading, width).split("\n")
        if widths is not None:
            yield from _lines(shown, row[first:], widths, numbers)
        else:
            indent = ""
            for title, value in zip(shown, row[first:], strict=True):
                if value:
                    yield from _filled(f"{indent}{title}: {value}", width).split("\n")
                    indent = _GAP
        for line in under[number] if under else ():
            yield from _filled(f"{_GAP}{line}", width).split("\n")


def _widths(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: Collection[str]
) -> list[int] | None:
    """Return how wide columns are, each as its widest word at least; None: they do not fit."""
    from rich.cells import cell_len

    texts = [[title, *(row[place] for row in rows)] for place, title in enumerate(titles)]
    most = [max(map(cell_len, of)) for of in texts]
    least = [
        whole
        if title in numbers
        else max(cell_len(word) for text in of for word in text.split() or [""])
        for title, whole, of in zip(titles, most, texts, strict=True)
    ]
    spare = width - len(_GAP) * (len(titles) - 1) - sum(least)
    if spare < 0:
        return None
    # What is little wider than its words is whole first.
    extra = [high - low for low, high in zip(least, most, strict=True)]
    by_size = sorted(range(len(extra)), key=extra.__getitem__)
    for left, place in zip(range(len(extra), 0, -1), by_size, strict=True):
        extra[place] = min(extra[place], spare // left)
        spare -= extra[place]
    return [low + more for low, more in zip(least, extra, strict=True)]


def _lines(
    titles: Sequence[str], values: Sequence[str], widths: Sequence[int], numbers: Collection[str]
) -> Iterator[str]:
    """Yield the lines of a row."""
    from rich.cells import cell_len, set_cell_size

    of_cells = [
        [value] if cell_len(value) <= width else _wrapped(value, width)
        for value, width in zip(values, widths, strict=True)
    ]
    for cells in zip_longest(*of_cells, fillvalue=""):
        padded = (
            " " * (width - cell_len(cell)) + cell
            if title in numbers
            else set_cell_size(cell, width)
            for title, cell, width in zip(titles, cells, widths, strict=True)
        )
        yield _GAP.join(padded).rstrip()


def _wrapped(value: str, width: int) -> list[str]:
    """Return the lines of a value: Rich takes a hundred times as long as to pad one."""
    from rich.console import Console
    from rich.text import Text

    return [line.plain.rstrip() for line in Text(value).wrap(Console(), width)]


def _printable(value: str) -> str:
    """Escape what would end a line or command the terminal."""
    if value.isprintable():
        return value
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in value
    )


def _flat(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Turn nested columns into JSON text."""
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    texts = {
        name: [None if value is None else _in_json(value) for value in frame[name].to_list()]
        for name in nested
    }
    return frame.with_columns(
        **{name: pl.Series(text, dtype=pl.String) for name, text in texts.items()}
    )


def _in_words(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_DURATION_UNITS = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
"""Seconds of units in which durations are told, from one of them on."""


def duration_unit(seconds: float) -> tuple[float, str]:
    """Return the unit in which a duration of three digits is told, its seconds first."""
    told = (each for each in _DURATION_UNITS if round(seconds / each[0], 3) >= 1)
    return next(told, _DURATION_UNITS[-1])


def duration(seconds: float) -> str:
    """Return a duration of three digits."""
    unit_s, unit = duration_unit(seconds)
    return f"{seconds / unit_s:.3g} {unit}"


def significant(value: float, digits: int = 3) -> str:
    """Return a number of so many significant digits, and of all that stand before its point."""
    shown = float(f"{value:.{digits}g}")
    return f"{value:,.0f}" if shown >= 100 else f"{shown:g}"


def format_duration(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds < 55:
        return f"{max(5 * round(seconds / 5), 5)} s"
    if seconds < 570:
        minutes, part = divmod(round(seconds / 10) * 10, 60)
        return f"{minutes} min {part} s" if part else f"{minutes} min"
    return f"{round(seconds / 60)} min"
