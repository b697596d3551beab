"""Figures over time: a panel for each, a numbered point for each run, the median among them."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.lines import Line2D

from reports.timelines import FigureHistory, history_plot

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def series(title: str, values: list[float]) -> FigureHistory:
    times = [BEGAN + timedelta(days=day) for day in range(len(values))]
    return FigureHistory(title, "s", pl.DataFrame({"started_at": times, "value": values}))


def ys(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata())]


def test_each_figure_has_a_panel_with_its_median() -> None:
    figure = history_plot([series("steps", [1.0, 2.0, 6.0]), series("passes", [4.0])])
    steps, passes = figure.axes
    assert [axes.get_title("left") for axes in (steps, passes)] == ["steps", "passes"]
    median, points = steps.lines
    assert ys(median) == [2.0, 2.0]
    assert ys(points) == [1.0, 2.0, 6.0]
    assert [text.get_text() for text in steps.texts] == ["1", "2", "3"]
    (band,) = steps.patches
    # Deviations from the median are 1, 0 and 4.
    box = band.get_path().transformed(band.get_patch_transform()).get_extents()
    assert (box.y0, box.y1) == (1.0, 3.0)
    assert ys(passes.lines[0]) == [4.0, 4.0]


@pytest.mark.parametrize(("runs", "numbered"), [(40, 40), (41, 0)])
def test_many_points_have_no_numbers(runs: int, numbered: int) -> None:
    (axes,) = history_plot([series("steps", [1.0] * runs)]).axes
    assert len(axes.texts) == numbered
