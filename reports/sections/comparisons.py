"""Curves that differ in one thing: batch (Fig. 2), order (18), link speed, servers (25)."""

from collections.abc import Mapping, Sequence

from forecasting.findings.comparisons import Comparison, Varied
from reports import study_plots
from reports.figure_html import captioned, grid

_TITLES: Mapping[Varied, str] = {
    "batch_size": "Other batch sizes",
    "link_mbps": "Other link speeds, forecast from one profile",
    "order": "Other orders of transfers",
    "servers": "Other numbers of servers",
    "placement": "Other placements of variables",
}


def section(comparisons: Sequence[Comparison]) -> str:
    """Return a figure of each group of curves; nothing without any."""
    return "".join(
        _of([one for one in comparisons if one.varied == varied], title)
        for varied, title in _TITLES.items()
    )


def _of(comparisons: Sequence[Comparison], title: str) -> str:
    figures = []
    for one in comparisons:
        described = f"Examples per second by number of workers, {one.shared}, {title.lower()}"
        drawn = study_plots.comparison(one.curves)
        figures.append((one.shared, captioned(drawn, described, "Examples/s of all workers.")))
    return f"<h2>{title}</h2>{grid(figures)}" if figures else ""
