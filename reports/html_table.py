"""Tables in HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Cell:
    """A table cell; numbers are set to the right, `wraps` lets long text break."""

    text: str
    is_number: bool = True
    wraps: bool = False


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return an HTML table; a column's head is aligned as its first cell."""
    kinds = [_kind(cell) for cell in rows[0]] if rows else ["" for _ in head]
    top = "".join(
        f'<th scope="col"{kind}>{escape(title)}</th>'
        for title, kind in zip(head, kinds, strict=True)
    )
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _cell(cell: Cell) -> str:
    return f"<td{_kind(cell)}>{escape(cell.text)}</td>"


def _kind(cell: Cell) -> str:
    if cell.is_number:
        return ' class="n"'
    return ' class="wrap"' if cell.wraps else ""
