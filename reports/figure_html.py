"""Figures in HTML."""

from collections.abc import Sequence
from html import escape

from matplotlib.figure import Figure

from reports.plots import to_svg


def captioned(figure: Figure, described: str, caption: str) -> str:
    """Return a figure with a caption, and a description for those who cannot see it."""
    svg = to_svg(figure).replace("<svg ", '<svg role="img" ', 1)
    end = svg.index(">") + 1
    title = f"<title>{escape(described)}</title>"
    return (
        f"<figure>{svg[:end]}{title}{svg[end:]}<figcaption>{escape(caption)}</figcaption></figure>"
    )


def grid(figures: Sequence[tuple[str, str]]) -> str:
    """Return titled figures side by side: (title, figure in HTML)."""
    parts = (f"<section><h3>{escape(title)}</h3>{figure}</section>" for title, figure in figures)
    return f'<div class="jobs">{"".join(parts)}</div>' if figures else ""
