"""Jobs that differ in one thing: batch (Fig. 2), order (18), link speed, servers (25)."""

from collections.abc import Mapping

import polars as pl

from reports import study_plots
from reports.comparisons import Varied, alike, curves, shared_title
from reports.figure_html import captioned, grid
from studies.study import Study

_TITLES: Mapping[Varied, str] = {
    "batch_size": "Batch sizes",
    "link_mbps": "Link speeds, one profile",
    "order": "Orders of transfers",
    "servers": "Numbers of servers",
    "placement": "Placements of variables",
}


def section(study: Study, rows: pl.DataFrame) -> str:
    """Return a figure of each group of curves, if any are alike; `rows` of an outcome."""
    return "".join(_of(study, rows, varied, title) for varied, title in _TITLES.items())


def _of(study: Study, rows: pl.DataFrame, varied: Varied, title: str) -> str:
    figures = []
    for group in alike(study, varied):
        shared = shared_title(study.curves[group[0]], varied)
        drawn = study_plots.comparison(curves(study, rows, group, varied))
        described = f"Examples per second by number of workers, {shared}, {title.lower()}"
        figures.append((shared, captioned(drawn, described, "Examples/s of all workers.")))
    return f"<h2>{title}</h2>{grid(figures)}" if figures else ""
