"""The first picture shows every judged scenario, those far out at the edge."""

import polars as pl

from reports import plots
from reports.opening_plot import errors

POINTS = pl.DataFrame(
    {
        "workers": [2, 2, 8],
        "error_percent": [-4.0, 5.0, 400.0],
        "linear_error_percent": [30.0, None, -60.0],
    }
)


def test_each_scenario_is_a_point_where_its_error_is() -> None:
    (axes,) = errors(POINTS, "linear scaling").axes
    _, theirs, _, ours, beyond = axes.lines
    assert list(ours.get_ydata()) == [-4.0, 5.0]  # type: ignore[arg-type]
    assert list(theirs.get_ydata()) == [30.0, -60.0]  # type: ignore[arg-type]
    assert list(beyond.get_ydata()) == [150.0]  # type: ignore[arg-type]
    assert all(x < 0.5 for x in ours.get_xdata())  # type: ignore[union-attr]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "8"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["forecast", "linear scaling"]


def test_it_can_be_drawn() -> None:
    svg = plots.to_svg(errors(POINTS, "linear scaling"))
    assert "var(--blue" in svg
    assert "var(--grey" in svg
