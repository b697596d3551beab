"""What figures hold stays the same; how it is written becomes the page's."""

import re

import pytest
from matplotlib.figure import Figure

from reports.plots import MOST_POINTS, PALETTE, in_page, of_page, shared_styles, to_svg


def points(count: int) -> str:
    """Return a figure with so many points."""
    figure = Figure()
    axes = figure.subplots()
    axes.plot(range(count), [place % 7 for place in range(count)], "o", color=PALETTE["green"])
    return to_svg(figure)


def test_places_are_rounded_and_words_are_not() -> None:
    svg = '<svg><path d="{}" style="opacity: 0.98765"/><text>0.00123</text></svg>'
    long, short = "M 1.2345 2.5 \nL 123.456 -0.001 \nz\n", "M1.23 2.5L123.5 0z"
    assert of_page("<?xml?>" + svg.format(long)) == svg.format(short)


def test_groups_that_say_nothing_go() -> None:
    svg = '<svg><g id="axes_1"><g id="line2d_2"><path/></g><g id="visit"><path/></g></g></svg>'
    assert of_page(svg) == '<svg><g><path/><g id="visit"><path/></g></g></svg>'


def test_a_style_of_several_elements_is_said_once() -> None:
    """Elsewhere than in figures, and where it is the only one, it stays."""
    path = '<path style="fill: none"/>'
    alone = '<path style="fill: red"/>'
    page, classes = shared_styles(f'<p style="x: y"></p><svg >{path}{path}{alone}</svg>')
    assert page == f'<p style="x: y"></p><svg ><path class="f0"/><path class="f0"/>{alone}</svg>'
    assert classes == ".f0 { fill: none }"


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
