"""Pictures of rows, as a mark says."""

from functools import partial

import polars as pl
from matplotlib.figure import Figure

from forecasting.findings.mark import Mark
from reports.plots import SERIES, blank, coloured, legend_below, styled


@styled
def draw(mark: Mark, rows: pl.DataFrame) -> Figure:
    """Draw rows as a mark says: the first column with points, others dashed."""
    figure, axes = blank()
    groups = rows.group_by(mark.of, maintain_order=True) if mark.of else [((), rows)]
    for colour, (key, part) in coloured(groups):
        for number, column in enumerate(mark.y):
            plot = partial(axes.step, where="post") if mark.kind == "step" else axes.plot
            label = str(key[0]) if key else column.replace("_", " ")
            known = part.drop_nulls(column)
            plot(
                known[mark.x],
                known[column],
                "--s" if number else "-" if mark.kind == "step" else "-o",
                color=colour if mark.of else SERIES[number],
                label=label if number == 0 or not mark.of else "",
                markersize=4,
            )
    axes.set(
        xlabel=mark.x.replace("_", " "),
        ylabel=" and ".join(mark.y).replace("_", " "),
        yscale="log" if mark.has_log_y else "linear",
    )
    legend_below(figure, axes)
    return figure
