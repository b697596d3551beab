"""Figures of pages: their style; SVG whose colours follow the page, PNG for Dagster and files."""

import io
import re
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#123456"
"""A colour no figure uses: in SVG it becomes the text colour of the page around it."""
PALETTE = {
    "blue": "#3b7dd8",
    "orange": "#e0662b",
    "green": "#2f9e6e",
    "violet": "#9b6bd3",
    "yellow": "#c2a01f",
    "pink": "#d1478f",
    "teal": "#4aa8b8",
    "grey": "#8a8f98",
    "red": "#c0392b",
}
"""Colours of figures on white; `style.css` has those of dark pages, by the same names."""
PREDICTED, MEASURED, LINEAR = PALETTE["blue"], PALETTE["orange"], PALETTE["grey"]
SERIES = tuple(PALETTE[name] for name in PALETTE if name not in ("grey", "red"))
"""Colours of what has no colour of its own."""
SIGNED = "error, % (above 0: forecast too high)"
"""The axis of errors with their sign: (predicted − measured) / measured."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "stepcast",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}
styled = mpl.rc_context(_STYLE)
_T = TypeVar("_T")
_INCHES_A_NAME = 0.2
_MOST_NAMES = 24
_LONGEST_OF_TWO = 36
"""Characters of names of which two stand side by side under a figure."""


@styled
def to_svg(figure: Figure) -> str:
    """Return a figure as an SVG element whose texts, axes and lines take the page's colours."""
    _lay_out(figure)
    rasterize_long(figure)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None}, dpi=144)
    return of_page(buffer.getvalue())


@styled
def to_png(figure: Figure) -> bytes:
    """Return a figure as a small PNG on white."""
    _lay_out(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80, facecolor="white")
    return buffer.getvalue()


def _lay_out(figure: Figure) -> None:
    """Place what a figure holds, once; while it has a layout engine, saving draws it twice."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def legend_below(figure: Figure, axes: Axes) -> None:
    """Put a legend of names that would not fit among the data under it, and make room.

    Of more than a few dozen, colours tell nothing apart, and there is none.
    """
    handles, names = axes.get_legend_handles_labels()
    if len(names) > _MOST_NAMES:
        return
    columns = 2 if len(names) > 1 and max(map(len, names)) <= _LONGEST_OF_TWO else 1
    figure.set_figheight(figure.get_figheight() + _INCHES_A_NAME * -(-len(names) // columns))
    figure.legend(handles, names, loc="outside lower left", ncols=columns, fontsize="small")


def blank(title: str = "") -> tuple[Figure, Axes]:
    """Return an empty figure, as all of them begin; to be called by what is `styled`."""
    figure = Figure(figsize=(6.0, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=11)
    return figure, axes


def coloured(items: Iterable[_T]) -> Iterator[tuple[str, _T]]:
    """Yield items, each after the colour of its place."""
    return zip(cycle(SERIES), items, strict=False)


# SVG for pages: colours follow the page.


MOST_POINTS = 500
"""Of a line in a figure; one with more is drawn as pixels, so that figures stay small."""
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_FONTS = re.compile(r"font-family: [^;\"]*")
_BETWEEN = re.compile(r">\s+<")


def rasterize_long(figure: Figure) -> None:
    """Let lines of more than `MOST_POINTS` be drawn as pixels."""
    for axes in figure.axes:
        for line in axes.lines:
            if len(line.get_xydata()) > MOST_POINTS:  # type: ignore[arg-type]
                line.set_rasterized(True)


def of_page(svg: str) -> str:
    """Return what matplotlib drew as an element whose colours and letters are the page's.

    Without a page around it, an SVG keeps the colours it was drawn in.
    """
    svg = _BETWEEN.sub("><", _METADATA.sub("", svg[svg.index("<svg") :]))
    svg = _FONTS.sub("font-family: system-ui, sans-serif", svg)
    svg = svg.replace(INK, "currentColor")
    for colour in PALETTE.values():
        svg = svg.replace(colour, in_page(colour))
    return svg


def in_page(colour: str) -> str:
    """Return what CSS calls a colour of the palette: the page's own, by its name."""
    name = next(name for name, value in PALETTE.items() if value == colour)
    return f"var(--{name}, {colour})"
