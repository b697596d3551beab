"""SVG for pages: colours follow the page, and what no eye can see is left out."""

import re

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
MOST_POINTS = 500
"""Of a line in a figure; one with more is drawn as pixels, so that figures stay small."""
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_FONTS = re.compile(r"font-family: [^;\"]*")
_PLACES = re.compile(r' (?:d|x|y|transform|points)="[^"]*"')
_BETWEEN = re.compile(r">\s+<")
_DIGITS = re.compile(r"(\.\d\d)\d+")


def rasterize_long(figure: Figure) -> None:
    """Let lines of more than `MOST_POINTS` be drawn as pixels."""
    for axes in figure.axes:
        for line in axes.lines:
            if len(line.get_xydata()) > MOST_POINTS:  # type: ignore[arg-type]
                line.set_rasterized(True)


def of_page(svg: str) -> str:
    """Return what matplotlib drew as an element whose colours and letters are the page's.

    Without a page around it, an SVG keeps the colours it was drawn in. Places are rounded to a
    hundredth of a point.
    """
    svg = _BETWEEN.sub("><", _METADATA.sub("", svg[svg.index("<svg") :]))
    svg = _FONTS.sub("font-family: system-ui, sans-serif", svg)
    svg = _PLACES.sub(lambda found: _DIGITS.sub(r"\1", found.group()), svg)
    svg = svg.replace(INK, "currentColor")
    for colour in PALETTE.values():
        svg = svg.replace(colour, in_page(colour))
    return svg


def in_page(colour: str) -> str:
    """Return what CSS calls a colour of the palette: the page's own, by its name."""
    name = next(name for name, one in PALETTE.items() if one == colour)
    return f"var(--{name}, {colour})"
