"""HTML of pages: tables, figures, sections that fold; a page loads nothing from outside."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from reports.wording import known

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 1000
"""Of a table; the rest is counted, so that no page grows with its study."""


@dataclass(frozen=True)
class Column:
    """A column of a table, declared: its title, the field of a row that it shows, and its format.

    Attributes:
        title: its head, which may break at `_`.
        field: an item or an attribute of a row by name, or what a function makes of the row; the
            title's if none.
        format: returns what is read; as it is, or a dash, if none.
        is_number: whether it is set to the right; pages sort by what its text begins with.
        wraps: whether long text may break.
    """

    title: str
    field: str | Callable[[Any], Any] = ""
    format: Callable[[Any], str] = known
    is_number: bool = True
    wraps: bool = False

    @property
    def head(self) -> str:
        """Its `<th>`."""
        return f'<th scope="col"{self._kind}>{escape(self.title).replace("_", "_<wbr>")}</th>'

    def text(self, row: Any) -> str:
        """Return what is read of a row."""
        return self.format(_field(row, self.field or self.title))

    def cell(self, row: Any) -> str:
        """Return its `<td>` of a row."""
        return f"<td{self._kind}>{escape(self.text(row))}</td>"

    @property
    def _kind(self) -> str:
        if self.is_number:
            return ' class="n"'
        return ' class="wrap"' if self.wraps else ""


def text_column(
    title: str,
    field: str | Callable[[Any], Any] = "",
    format: Callable[[Any], str] = known,
    *,
    wraps: bool = False,
) -> Column:
    """Return a column of text."""
    return Column(title, field, format, is_number=False, wraps=wraps)


def _field(row: Any, field: str | Callable[[Any], Any]) -> Any:
    if callable(field):
        return field(row)
    return row[field] if isinstance(row, Mapping) else getattr(row, field)


def table(columns: Sequence[Column], rows: pl.DataFrame | Iterable[Any]) -> str:
    """Return the HTML table of these columns, a row for each of a frame, or for each record."""
    records = rows.to_dicts() if isinstance(rows, pl.DataFrame) else list(rows)
    body = "\n".join(
        f"<tr>{''.join(column.cell(record) for column in columns)}</tr>"
        for record in records[:MOST_ROWS]
    )
    rest = ""
    if len(records) > MOST_ROWS:
        more = f"And {len(records) - MOST_ROWS:,} more rows, which the history has"
        rest = f'<p class="soft">{more}: <code>stepcast query</code></p>'
    return (
        '<div class="wide" tabindex="0"><table><thead>'
        f"<tr>{''.join(column.head for column in columns)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{rest}"
    )


class Section(NamedTuple):
    """What is behind a heading, and the heading, as HTML."""

    title: Markup
    body: Markup


def section(title: str, *parts: str) -> Section:
    """Return a section of some HTML."""
    return Section(Markup(title), Markup("".join(parts)))


def table_section(
    title: str, said: str, columns: Sequence[Column], rows: pl.DataFrame | Sequence[Any] | None
) -> Section | None:
    """Return a section that is a table below what is said of it (HTML); None without rows."""
    if rows is None or not len(rows):
        return None
    return section(title, f"<p>{said}</p>", table(columns, rows))


MOST_FIGURES = 64
"""Side by side; the rest is counted, so that no page grows with its study."""


def caption_figure(figure: "Figure", described: str, caption: str) -> str:
    """Return a figure with a caption, and a description for those who cannot see it."""
    from reports.plots import to_svg  # takes long to import, and the page of a service has none

    svg = to_svg(figure).replace("<svg ", '<svg role="img" ', 1)
    end = svg.index(">") + 1
    title = f"<title>{escape(described)}</title>"
    return (
        f"<figure>{svg[:end]}{title}{svg[end:]}<figcaption>{escape(caption)}</figcaption></figure>"
    )


def grid(figures: Sequence[tuple[str, str]], there_are: int = 0) -> str:
    """Return titled figures side by side, and how many more there are than are shown.

    Args:
        figures: title, and figure in HTML.
        there_are: where not all were drawn.
    """
    parts = (
        f"<section><h3>{escape(title)}</h3>{figure}</section>"
        for title, figure in figures[:MOST_FIGURES]
    )
    rest = max(len(figures), there_are) - MOST_FIGURES
    more = f'<p class="soft">And {rest:,} more, which are in the tables.</p>' if rest > 0 else ""
    return f'<div class="jobs">{"".join(parts)}</div>{more}' if figures else ""


_HERE = Path(__file__).parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
_VENDORED = _HERE / "vendored"
ASK_FILES: Mapping[str, tuple[Path, str]] = {
    "style.css": (_HERE / "style.css", "text/css"),
    "d3.min.js": (_VENDORED / "d3.min.js", "text/javascript"),
    "plot.umd.min.js": (_VENDORED / "plot.umd.min.js", "text/javascript"),
    "ask.js": (_HERE / "ask.js", "text/javascript"),
}
"""What the page to ask loads, in this order."""
_PLOT_STYLE = (
    ":where(.plot) {\n  --plot-background: white;\n  display: block;\n  height: auto;\n"
    "  height: intrinsic;\n  max-width: 100%;\n}\n"
    ":where(.plot text),\n:where(.plot tspan) {\n  white-space: pre;\n}"
)
"""That Observable Plot sets beside a figure of class `plot`."""


def page(title: str, header: str, groups: Mapping[str, Iterable[Section | None]]) -> str:
    """Return a page.

    A browser that opens it loads nothing, from anywhere, and runs no script but ours.

    Args:
        title: in words.
        header: its first heading and what stands below it, as HTML.
        groups: sections after it, by what each group is called; they open at their headings, on
            paper they are open, and a list leads to them.
    """
    shown = {name: [each for each in sections if each] for name, sections in groups.items()}
    return _TEMPLATES.get_template("page.html").render(
        title=title,
        header=Markup(header),
        groups={name: sections for name, sections in shown.items() if sections},
        **_inlined([_HERE / "page.js"]),
    )


def ask_page(answer: str | None = None) -> str:
    """Return the page to ask; with an answer as JSON, one file that shows it and loads nothing."""
    scripts = [path for path, kind in ASK_FILES.values() if kind == "text/javascript"]
    given = {} if answer is None else _inlined(scripts)
    return _TEMPLATES.get_template("ask.html").render(
        title="Ask" if answer is None else "An answer",
        answer=None if answer is None else Markup(answer.replace("<", "\\u003c")),
        files=ASK_FILES,
        **given,
    )


def policy(scripts: Iterable[str] = ()) -> str:
    """Return the Content-Security-Policy of a page with these scripts; without: of a served one."""
    hashes = " ".join(f"'{_digest(script)}'" for script in scripts)
    if hashes:
        return (
            f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' '{_digest(_PLOT_STYLE)}'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _inlined(scripts: Iterable[Path]) -> dict[str, Any]:
    """Return what a template needs to hold its style and scripts itself."""
    # A text that ends a script ends it, wherever it stands.
    texts = [path.read_text().replace("</script", "<\\/script") for path in scripts]
    style = (_HERE / "style.css").read_text()
    return {"style": Markup(style), "scripts": [*map(Markup, texts)], "policy": policy(texts)}


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
