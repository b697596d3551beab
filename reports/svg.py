"""SVG for pages: colours follow the page, and what no eye can see is left out."""

import re
from collections import Counter

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
_SMALL = 10.0
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_FONTS = re.compile(r"font-family: [^;\"]*")
_PLACES = re.compile(r' (?:d|x|y|transform|points)="[^"]*"')
_BETWEEN = re.compile(r">\s+<")
_NUMBER = re.compile(r"-?\d+\.\d+")
_LETTER = r"\1"
_AROUND_LETTERS = re.compile(r"\s*([A-Zz])\s*")
_UNTURNED = re.compile(r' transform="rotate\(-?0(?: [^"]*)?\)"')
_GROUP_ID = re.compile(r'<g id="[\w.]+_\d+"')
"""What matplotlib calls groups itself; names that we give do not end with a number."""
_BARE_GROUP = re.compile(r"<g>((?:(?!</?g[ >]).)*)</g>", re.DOTALL)
_FIGURE = re.compile(r"<svg .*?</svg>", re.DOTALL)
_OWN_STYLE = re.compile(r"<defs><style[^>]*>[^<]*</style></defs>")
_STYLE = re.compile(r' style="([^"]*)"')


def rasterize_long(figure: Figure) -> None:
    """Let lines of more than `MOST_POINTS` be drawn as pixels."""
    for axes in figure.axes:
        for line in axes.lines:
            if len(line.get_xydata()) > MOST_POINTS:  # type: ignore[arg-type]
                line.set_rasterized(True)


def of_page(svg: str) -> str:
    """Return what matplotlib drew as an element whose colours and letters are the page's.

    Without a page around it, an SVG keeps the colours it was drawn in. Places are rounded to a
    tenth of a point, those of marks to a hundredth.
    """
    svg = _BETWEEN.sub("><", _METADATA.sub("", svg[svg.index("<svg") :]))
    svg = _FONTS.sub("font-family: system-ui, sans-serif", svg)
    svg = _UNTURNED.sub("", _GROUP_ID.sub("<g", svg))
    svg = _PLACES.sub(lambda found: _places(found.group()), svg)
    outer = ""
    while outer != svg:
        outer, svg = svg, _BARE_GROUP.sub(r"\1", svg)
    svg = svg.replace(INK, "currentColor")
    for colour in PALETTE.values():
        svg = svg.replace(colour, in_page(colour))
    return svg


def shared_styles(html: str) -> tuple[str, str]:
    """Return a page whose figures say by classes how they look, and the CSS of these classes.

    What several elements have in common is said once: it is a third of all bytes otherwise.
    """
    times = Counter(style for svg in _FIGURE.findall(html) for style in _STYLE.findall(svg))
    names = {style: f"f{place}" for place, (style, n) in enumerate(times.most_common()) if n > 1}

    def classed(found: re.Match[str]) -> str:
        name = names.get(found.group(1))
        return f' class="{name}"' if name else found.group()

    page = _FIGURE.sub(lambda svg: _STYLE.sub(classed, _OWN_STYLE.sub("", svg.group())), html)
    return page, "\n".join(f".{name} {{ {style} }}" for style, name in names.items())


def _places(attribute: str) -> str:
    name, _, value = attribute.partition("=")
    value = _NUMBER.sub(_rounded, value)
    return f"{name}={_AROUND_LETTERS.sub(_LETTER, value) if name == ' d' else value}"


def _rounded(found: re.Match[str]) -> str:
    """Return a number with as many digits as an eye can see; marks are small, and near 0."""
    value = float(found.group())
    text = f"{value:.{2 if abs(value) < _SMALL else 1}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def in_page(colour: str) -> str:
    """Return what CSS calls a colour of the palette: the page's own, by its name."""
    name = next(name for name, one in PALETTE.items() if one == colour)
    return f"var(--{name}, {colour})"
