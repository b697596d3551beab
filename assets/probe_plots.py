"""What lineage draws of the runs of some probes; of others it shows rows alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl
from matplotlib.figure import Figure

from reports import plots, srift_plots


@dataclass(frozen=True)
class Drawn:
    """The tables whose rows are joined by what they share, and a plot of those of each need."""

    tables: tuple[str, ...]
    plot: Callable[[pl.DataFrame, str], Figure]


DRAWN: Mapping[str, Drawn] = {
    "links": Drawn(("link",), plots.goodput),
    "contention": Drawn(("contention",), plots.contention),
    "allreduce": Drawn(("allreduce",), srift_plots.bus_bandwidth),
    "tf_trace": Drawn(("timing", "operation"), plots.step_timeline),
    "torch_compute": Drawn(("compute",), srift_plots.passes),
}
