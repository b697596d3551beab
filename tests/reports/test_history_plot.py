"""Figures over time: a panel for each, a numbered point for each run, the median among them."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from reports.history_plot import Series, over_time

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def series(title: str, values: list[float]) -> Series:
    times = [BEGAN + timedelta(days=day) for day in range(len(values))]
    return Series(title, "s", pl.DataFrame({"started_at": times, "value": values}))


def test_each_figure_has_a_panel_with_its_median() -> None:
    figure = over_time([series("steps", [1.0, 2.0, 6.0]), series("passes", [4.0])])
    steps, passes = figure.axes
    assert [axes.get_title("left") for axes in (steps, passes)] == ["steps", "passes"]
    median, points = steps.lines
    assert list(median.get_ydata()) == [2.0, 2.0]
    assert list(points.get_ydata()) == [1.0, 2.0, 6.0]
    assert [text.get_text() for text in steps.texts] == ["1", "2", "3"]
    (band,) = steps.patches
    assert (band.get_y(), band.get_height()) == (1.0, 2.0)
    assert list(passes.lines[0].get_ydata()) == [4.0, 4.0]


@pytest.mark.parametrize(("runs", "numbered"), [(40, 40), (41, 0)])
def test_many_points_have_no_numbers(runs: int, numbered: int) -> None:
    (axes,) = over_time([series("steps", [1.0] * runs)]).axes
    assert len(axes.texts) == numbered
