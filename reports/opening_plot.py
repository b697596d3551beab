"""The picture of the first screen: how wrong forecasts were, beside a rule of thumb."""

import polars as pl
from matplotlib.figure import Figure

from reports.plots import LINEAR, PREDICTED, SIGNED, blank, styled
from reports.svg import INK

_ASIDE = 0.16
"""Of a worker, to the left and to the right, so that both can be seen."""
_NEAR_PERCENT = 10
_MOST_PERCENT = 150
"""A rule of thumb errs by so much that forecasts could not be told apart; it is cut off here."""


@styled
def errors(points: pl.DataFrame, baseline: str) -> Figure:
    """Plot the error of each judged scenario by workers, forecast and baseline side by side.

    `points` has workers, error_percent and linear_error_percent, NULL where there is no baseline;
    one outside of ±150 % is drawn as a triangle at the edge.
    """
    figure, axes = blank("")
    axes.axhspan(-_NEAR_PERCENT, _NEAR_PERCENT, color=PREDICTED, alpha=0.12, lw=0)
    axes.axhline(0, color=INK, alpha=0.5, lw=0.8)
    kinds = (
        ("linear_error_percent", _ASIDE, LINEAR, baseline),
        ("error_percent", -_ASIDE, PREDICTED, "forecast"),
    )
    places = {workers: place for place, workers in enumerate(sorted(set(points["workers"])))}
    for column, aside, colour, label in kinds:
        known = points.filter(pl.col(column).is_not_null()).select("workers", error=pl.col(column))
        if known.is_empty():
            continue
        x = [places[workers] + aside for workers in known["workers"]]
        inside = known["error"].clip(-_MOST_PERCENT, _MOST_PERCENT)
        is_out = (known["error"].abs() > _MOST_PERCENT).to_list()
        for out, sign in ((False, "o"), (True, "^")):
            chosen = [place for place, one in enumerate(is_out) if one == out]
            axes.plot(
                [x[place] for place in chosen],
                [inside[place] for place in chosen],
                sign,
                ms=5,
                alpha=0.65,
                mew=0,
                color=colour,
                label=label if not out else None,
            )
    axes.set_xticks(range(len(places)), labels=[str(one) for one in places])
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set(xlabel="workers", ylabel=SIGNED)
    axes.margins(y=0.12)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="best")
    return figure
