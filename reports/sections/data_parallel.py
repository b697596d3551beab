"""All-reduces and passes of a round of data-parallel training (section 4.2 and Fig. 5 of Srift)."""

from pathlib import Path

from reports import srift_plots
from reports.figure_html import captioned, grid
from studies import landed
from studies.rounds import Round

_MEDIAN = "Lines go through the medians of all ranks and trials."
_MEAN = "Lines go through means; a point is a step."


def section(round_: Round, landing: Path) -> str:
    """Return figures of bus bandwidth and of passes; nothing where neither was probed."""
    reduced = [
        (
            str(name),
            captioned(srift_plots.bus_bandwidth(rows), f"Bus bandwidth by size, {name}", _MEDIAN),
        )
        for (name,), rows in landed.by_name(landed.rows(round_, landing, "allreduce", "allreduce"))
    ]
    passes = [
        (
            str(name),
            captioned(srift_plots.passes(rows), f"Seconds of passes by batch, {name}", _MEAN),
        )
        for (name,), rows in landed.by_name(
            landed.rows(round_, landing, "torch_compute", "compute", "profile")
        )
    ]
    parts = (("All-reduces", reduced), ("Passes of one node", passes))
    return "".join(f"<h2>{title}</h2>{grid(figures)}" for title, figures in parts if figures)
