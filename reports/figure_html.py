"""Figures in HTML."""

from collections.abc import Sequence
from html import escape

from matplotlib.figure import Figure

from reports.plots import to_svg

MOST_FIGURES = 64
"""Side by side; the rest is counted, so that no page grows with its study."""


def captioned(figure: Figure, described: str, caption: str) -> str:
    """Return a figure with a caption, and a description for those who cannot see it."""
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
