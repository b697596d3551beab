"""Figures of reused models: panels, marks at the edge, and numbers on axes of logarithms."""

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes

from forecasting.findings import collection_time
from forecasting.findings.collection_time import COLUMNS
from reports import predictddl
from reports.plots import to_png
from reports.predictddl import ratios_figure
from tests.reports.pages import Balanced, cells, headings

ROWS = pl.DataFrame(
    {
        "of": ["black box", "gray box"] * 2,
        "dnn": ["ant", "ant", "bee", "bee"],
        "workers": [1, 1, 4, 4],
        "rmse_s": [1.0, 1.0, 2.0, 0.5],
    }
)


def numbers(axes: Axes) -> list[str]:
    """Return the numbers on the visible part of the horizontal axis."""
    low, high = axes.get_xlim()
    ticks = axes.xaxis.get_major_ticks()
    return [tick.label1.get_text() for tick in ticks if low <= tick.get_loc() <= high]


def test_panels_stand_beside_each_other_and_equal_lines_show() -> None:
    figure = predictddl.panels_plot(ROWS, "dnn", "rmse_s", "RMSE")
    assert [axes.get_title() for axes in figure.axes] == ["ant", "bee"]
    assert [axes.get_ylabel() for axes in figure.axes] == ["RMSE", ""]
    for axes in figure.axes:
        wide, narrow = (line.get_linewidth() for line in axes.lines)
        assert wide > narrow
        assert axes.get_xticks().tolist() == [1, 4]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["black box", "gray box"]


@pytest.mark.parametrize(
    ("ratios", "told"),
    [
        ((0.5, 2.0), ["0.5", "0.7", "1", "1.5", "2"]),
        ((0.3, 3.0), ["0.5", "1", "2"]),
        ((1e-7, 90.0), ["0.01", "0.1", "1", "10", "100"]),
    ],
)
def test_ratios_stand_at_the_edge_where_they_are_beyond_it(
    ratios: tuple[float, float], told: list[str]
) -> None:
    rows = pl.DataFrame({"of": ["a", "a"], "dnn": ["ant", "bee"], "ratio": ratios})
    figure = predictddl.ratios_plot(rows)
    to_png(figure)
    (axes,) = figure.axes
    _, points = axes.lines
    assert list(points.get_xdata()) == [max(ratios[0], 0.01), ratios[1]]  # type: ignore[arg-type]
    assert numbers(axes) == told
    beyond = "At the edge stand 1 beyond 100 times or a 100th." in ratios_figure(rows, "families")
    assert beyond == (ratios[0] < 0.01)


def test_each_network_has_a_mark_and_all_of_them_a_bar() -> None:
    rows = pl.DataFrame(
        {
            "of": ["a"] * 3,
            "dnn": ["ant", "bee", "ant"],
            "workers": [2, 2, 4],
            "error_percent": [10.0, 50.0, 0.0],
        }
    )
    figure = predictddl.servers_plot(rows)
    to_png(figure)
    (axes,) = figure.axes
    marks, means = axes.lines
    assert list(marks.get_ydata()) == [10, 50, predictddl.LEAST_PERCENT]  # type: ignore[arg-type]
    assert list(means.get_ydata()) == [30, predictddl.LEAST_PERCENT]  # type: ignore[arg-type]
    (bars,) = axes.collections
    ends = [np.asarray(path.vertices)[:, 1].tolist() for path in bars.get_paths()]
    assert ends == [[10, 50], [0.1, 0.1]]


WAITED = pl.DataFrame(
    [("predictddl", n, 3000.0, False, n, 6.0) for n in (1, 2, 3)]
    + [("ernest", n, 200.0 * n, False, n, 7.0) for n in (1, 2, 3)],
    schema=COLUMNS,
    orient="row",
)


def test_ratios_stand_beside_the_paper_s() -> None:
    compared = collection_time.compare_with_ernest(WAITED, [10.0, 12.5, 15.0])
    html = predictddl.waiting_section(WAITED, compared)
    assert not Balanced(html).open
    assert headings(html) == ["Time before an answer", "Measuring", "Errors"]
    rows = cells(html)
    assert ["2", "400 s", "12.5 s", "3,000 s", "32 x", "0.13 x", "2.6 x"] in rows
    assert ["3", "600 s", "15.0 s", "3,000 s", "40 x", "0.20 x", "—"] in rows
    assert ["ernest", "400 s", "600 s", "7.0 %", "3"] in rows
    assert "predictddl: fit and forecasts only" in html
    summary = "3 workloads: ernest 600 s, 40 x as long as predictddl; 0.20 x if the runs"
    assert summary in predictddl.in_short(WAITED, compared)


def test_what_a_plan_expects_is_marked_and_not_compared() -> None:
    planned = WAITED.with_columns(expected=pl.col("system") == "ernest")
    compared = collection_time.compare_with_ernest(planned, [10.0, 12.5, 15.0])
    html = predictddl.waiting_section(planned, compared)
    assert "Ernest over fit and forecasts" not in html
    assert ["ernest *", "400 s", "600 s", "7.0 %", "3"] in cells(html)
    assert "ernest *, 3 workloads: 600 s" in predictddl.in_short(planned, compared)
