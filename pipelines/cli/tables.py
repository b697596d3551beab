"""Tables and text for people, as wide as their terminal; CSV and JSON for programs.

A table has one line a row where its columns fit beside each other. Where they do not, the columns
that matter most stay on the row, and what does not fit stands under it as `name: value`. No value
is cut. A value is broken only if it is wider than a line, and then between two words. So is text;
in a pipe it has no width unless COLUMNS says one.
"""

import json
import math
import os
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TextIO

import typer
from rich.cells import cell_len

from warehouse import limits
from warehouse.records import BadInput

if TYPE_CHECKING:
    import polars as pl

Format = Literal["table", "csv", "json"]
PIPE_COLUMNS = 160
"""How wide tables are that no terminal shows, if COLUMNS does not say."""
_GAP, _PAIR_GAP, _UNDER = "  ", "   ", "    "
_RULE = "─"


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Attributes:
        title: what stands above it.
        is_key: whether it stays on the row when others go under it.
        is_number: whether it is set to the right.
        is_heading: of the first column: neighbouring rows of one value show it once, and on a line
            of its own above them where columns do not all fit.
        colours: of values, by name.
    """

    title: str
    is_key: bool = False
    is_number: bool = False
    is_heading: bool = False
    colours: Mapping[str, str] = field(default_factory=dict)


def columns_of_terminal() -> int:
    """Return how wide lines may be: as COLUMNS says, else the terminal, else `PIPE_COLUMNS`."""
    return _columns_of(sys.stdout) or PIPE_COLUMNS


def print_text(text: str, *, err: bool = False) -> None:
    """Print text, on stderr if `err`; lines that are too wide for the terminal end between words.

    A line goes on below its first word, two columns further in. In a pipe it stays whole, unless
    COLUMNS says how wide lines may be.
    """
    width = _columns_of(sys.stderr if err else sys.stdout)
    for line in text.split("\n"):
        typer.echo("\n".join([line] if width is None else _filled(line, width)), err=err)


def _columns_of(stream: TextIO) -> int | None:
    """Return how wide the lines of a stream may be; None if nothing says so."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # a pipe; or a buffer, which has no descriptor
        return None


def _filled(line: str, width: int) -> list[str]:
    """Return a line, or several that end between words."""
    if cell_len(line) <= width:
        return [line]
    first = line[: len(line) - len(line.lstrip())]
    return _wrapped(line.strip(), width, first, first + _GAP)


def _wrapped(text: str, width: int, first: str, further: str) -> list[str]:
    """Return lines that end between words, each after its indent."""
    return textwrap.wrap(
        text,
        max(width, len(first) + 20),
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_frame(frame: "pl.DataFrame", form: Format, keys: Collection[str] = ()) -> None:
    """Print rows in the form asked for; as a table, `keys` are columns that stay on the row."""
    print_frames([frame], form, keys)


def print_frames(
    frames: "Iterable[pl.DataFrame]", form: Format, keys: Collection[str] = ()
) -> None:
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
        print_table(_whole(frames), keys)


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


def print_table(frame: "pl.DataFrame", keys: Collection[str] = ()) -> None:
    """Print rows as a table, then their number; `keys` are columns that stay on the row."""
    columns = [
        TableColumn(name, is_key=name in keys, is_number=kind.is_numeric())
        for name, kind in frame.schema.items()
    ]
    print_rows(columns, [[_in_words(value) for value in row] for row in _flat(frame).rows()])
    typer.echo(f"{frame.height} row{'' if frame.height == 1 else 's'}")


def print_rows(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, an empty line before and after it.

    Args:
        columns: from left to right.
        rows: a value for each column.
    """
    coloured = False if os.environ.get("NO_COLOR") else None
    typer.echo()
    for line in table_lines(columns, rows, columns_of_terminal()):
        typer.echo(line, color=coloured)
    typer.echo()


def table_lines(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], width: int
) -> Iterator[str]:
    """Yield the lines of a table; see `print_rows`.

    Args:
        columns: from left to right.
        rows: a value for each column.
        width: what lines may take.
    """
    cells = [[_on_one_line(value) for value in row] for row in rows]
    widths = [
        max(map(cell_len, (column.title, *(row[place] for row in cells))))
        for place, column in enumerate(columns)
    ]
    places = list(range(len(columns)))
    if _total(widths) <= width:
        beside, heading, indent = places, None, ""
    else:
        heading = 0 if columns and columns[0].is_heading else None
        indent = "" if heading is None else _GAP
        inside = places if heading is None else places[1:]
        beside = _beside(columns, widths, inside, width - len(indent))
    under = [place for place in places if place not in beside and place != heading]
    is_narrow = len(beside) != 1 or len(indent) + widths[beside[0]] <= width
    titles = [column.title for column in columns]
    if heading is not None:
        yield titles[heading]
    yield indent + _joined(columns, widths, beside, titles)
    yield indent + _RULE * min(_total([widths[place] for place in beside]), width - len(indent))
    last = None
    for row in cells:
        repeats = last is not None and columns[0].is_heading and row[0] == last
        last = row[0]
        if heading is not None and not repeats:
            yield from _filled(row[heading], width)
        shown = ["", *row[1:]] if repeats else row
        if is_narrow:
            yield indent + _joined(columns, widths, beside, shown)
        else:
            yield from _filled(indent + shown[beside[0]], width)
        pairs = [f"{titles[place]}: {row[place]}" for place in under if row[place]]
        yield from _packed(pairs, indent + _UNDER, width)


def _beside(
    columns: Sequence[TableColumn], widths: Sequence[int], places: Sequence[int], width: int
) -> list[int]:
    """Return which columns stay on the row: the first, keys, and others as far as they fit."""
    keys = [place for place in places[1:] if columns[place].is_key]
    others = [place for place in places[1:] if not columns[place].is_key]
    beside = list(places[:1])
    for place in (*keys, *others):
        if _total([widths[taken] for taken in (*beside, place)]) <= width:
            beside.append(place)
    return sorted(beside)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * max(len(widths) - 1, 0)


def _joined(
    columns: Sequence[TableColumn], widths: Sequence[int], places: Sequence[int], row: Sequence[str]
) -> str:
    """Return the values of a line beside each other."""
    texts = []
    for place in places:
        space = " " * (widths[place] - cell_len(row[place]))
        colour = columns[place].colours.get(row[place])
        value = row[place] if colour is None else typer.style(row[place], fg=colour)
        texts.append(space + value if columns[place].is_number else value + space)
    return _GAP.join(texts).rstrip()


def _packed(pairs: Sequence[str], indent: str, width: int) -> Iterator[str]:
    """Yield pairs of name and value, as many on a line as fit."""
    line = ""
    for pair in pairs:
        longer = f"{line}{_PAIR_GAP}{pair}" if line else indent + pair
        if cell_len(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        *full, line = _wrapped(pair, width, indent, indent + _GAP)
        yield from full
    if line:
        yield line


def _on_one_line(value: str) -> str:
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


def significant(value: float) -> str:
    """Return a number of three significant digits, and of all that stand before its point."""
    shown = float(f"{value:.3g}")
    return f"{value:,.0f}" if shown >= 100 else f"{shown:g}"


def format_duration(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds < 55:
        return f"{max(5 * round(seconds / 5), 5)} s"
    if seconds < 570:
        minutes, part = divmod(round(seconds / 10) * 10, 60)
        return f"{minutes} min {part} s" if part else f"{minutes} min"
    return f"{round(seconds / 60)} min"
