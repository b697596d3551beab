"""All-reduces and passes of a round of data-parallel training (section 4.2 and Fig. 5 of Srift)."""

from forecasting.findings.data_parallel import DataParallel
from reports import srift_plots
from reports.figure_html import captioned, grid

_MEDIAN = "Lines go through the medians of all ranks and trials."
_MEAN = "Lines go through means; a point is a step."


def section(found: DataParallel | None) -> str:
    """Return figures of bus bandwidth and of passes; nothing where neither was probed."""
    if found is None:
        return ""
    reduced = [
        (
            name,
            captioned(srift_plots.bus_bandwidth(rows), f"Bus bandwidth by size, {name}", _MEDIAN),
        )
        for name, rows in found.allreduces.items()
    ]
    passes = [
        (name, captioned(srift_plots.passes(rows), f"Seconds of passes by batch, {name}", _MEAN))
        for name, rows in found.passes.items()
    ]
    parts = (("All-reduces", reduced), ("Passes of one node", passes))
    return "".join(f"<h2>{title}</h2>{grid(figures)}" for title, figures in parts if figures)
