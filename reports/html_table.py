"""Tables in HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

MOST_ROWS = 1000
"""Of a table; the rest is counted, so that no page grows with its study."""


@dataclass(frozen=True)
class Cell:
    """A table cell; numbers are set to the right, `wraps` lets long text break.

    Pages sort numbers by what their text begins with; `value` is by what else, where units differ.
    """

    text: str
    is_number: bool = True
    wraps: bool = False
    value: float | None = None


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return an HTML table; a column's head is aligned as its first cell."""
    kinds = [_kind(cell) for cell in rows[0]] if rows else ["" for _ in head]
    top = "".join(
        f'<th scope="col"{kind}>{escape(title)}</th>'
        for title, kind in zip(head, kinds, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MOST_ROWS])
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{_rest(len(rows))}"
    )


def _rest(rows: int) -> str:
    if rows <= MOST_ROWS:
        return ""
    more = f"And {rows - MOST_ROWS:,} more rows, which the history has"
    return f'<p class="soft">{more}: <code>stepcast query</code></p>'


def _cell(cell: Cell) -> str:
    value = "" if cell.value is None else f' data-v="{cell.value!r}"'
    return f"<td{_kind(cell)}{value}>{escape(cell.text)}</td>"


def _kind(cell: Cell) -> str:
    if cell.is_number:
        return ' class="n"'
    return ' class="wrap"' if cell.wraps else ""
