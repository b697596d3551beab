"""The first picture shows every judged scenario, those far out at the edge."""

import numpy as np
import polars as pl
from matplotlib.lines import Line2D

from reports import plots
from reports.report import errors_plot

POINTS = pl.DataFrame(
    {
        "workers": [2, 2, 8],
        "error_percent": [-4.0, 5.0, 400.0],
        "linear_error_percent": [30.0, None, -60.0],
    }
)


def heights(line: Line2D) -> list[float]:
    """Return the heights of a line's points."""
    return [float(one) for one in np.asarray(line.get_ydata(), float)]


def test_each_scenario_is_a_point_where_its_error_is() -> None:
    (axes,) = errors_plot(POINTS, "linear scaling").axes
    _, theirs, _, ours, beyond = axes.lines
    assert heights(ours) == [-4.0, 5.0]
    assert heights(theirs) == [30.0, -60.0]
    assert heights(beyond) == [150.0]
    assert all(x < 0 for x in np.asarray(ours.get_xdata(), float)), "left of their workers"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "8"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["forecast", "linear scaling"]


def test_a_baseline_that_was_not_judged_is_not_named() -> None:
    without = POINTS.with_columns(linear_error_percent=pl.lit(None, pl.Float64))
    (axes,) = errors_plot(without, "linear scaling").axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["forecast"]


def test_it_can_be_drawn() -> None:
    svg = plots.to_svg(errors_plot(POINTS, "linear scaling"))
    assert "var(--blue" in svg
    assert "var(--grey" in svg
