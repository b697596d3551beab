"""Figures are drawn for every shape of input, as SVG for pages and PNG for Dagster."""

import re

import polars as pl
import pytest
from matplotlib.figure import Figure

from reports import plots, study_sections
from reports.plots import MOST_POINTS, PALETTE, in_page, of_page, to_svg

ROWS = pl.DataFrame(
    {
        "workers": [1, 2],
        "predicted": [3.0, 5.0],
        "low": [2.5, 4.5],
        "high": [3.5, 5.5],
        "linear": [3.0, 6.0],
        "measured": [3.1, 4.9],
        "spread_percent": [1.0, None],
    }
)
UNKNOWN = ROWS.with_columns(
    pl.lit(None, pl.Float64).alias(name) for name in ("low", "high", "measured", "spread_percent")
)
FIGURES = {
    "scaling": lambda: study_sections.scaling(ROWS, "steps/s"),
    "scaling, not measured": lambda: study_sections.scaling(UNKNOWN, "steps/s"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_can_be_drawn(name: str) -> None:
    figure: Figure = FIGURES[name]()
    assert plots.to_png(figure).startswith(b"\x89PNG")
    svg = plots.to_svg(figure)
    assert svg.startswith("<svg")
    assert svg.rstrip().endswith("</svg>")
    assert "currentColor" in svg
    assert "<metadata" not in svg


def test_scaling_shows_what_is_known() -> None:
    known = plots.to_svg(study_sections.scaling(ROWS, "steps/s"))
    assert all(label in known for label in ("predicted", "linear scaling", "measured", "workers"))
    assert "measured" not in plots.to_svg(study_sections.scaling(UNKNOWN, "steps/s"))


def test_marks_stay_below_the_upper_end() -> None:
    """Also where all that is shown is close together, far from 0."""
    close = ROWS.with_columns(pl.lit(1.45).alias(name) for name in ("predicted", "measured"))
    (axes,) = study_sections.scaling(close, "steps/s").axes
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 1.03 * 1.45


def points(count: int) -> str:
    """Return a figure with so many points."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot(range(count), [place % 7 for place in range(count)], "o", color=PALETTE["green"])
    return to_svg(figure)


def test_colours_are_the_page_s_where_there_is_one() -> None:
    svg = of_page('<svg><path style="fill: #3b7dd8; stroke: #123456"/></svg>')
    assert svg == '<svg><path style="fill: var(--blue, #3b7dd8); stroke: currentColor"/></svg>'
    with pytest.raises(StopIteration):
        in_page("#000001")


def test_no_figure_grows_with_its_points() -> None:
    few, many, more = points(MOST_POINTS), points(MOST_POINTS + 1), points(5 * MOST_POINTS)
    assert few.count("<use") >= MOST_POINTS
    assert "data:image/png" not in few
    assert "data:image/png" in many
    assert len(more) < 2 * len(many)


def test_digits_of_ticks_survive() -> None:
    figure = Figure()
    figure.subplots().set_yticks([0.0012, 0.0034])
    assert re.findall(r">(0\.00\d+)<", to_svg(figure)) == ["0.0012", "0.0034"]
