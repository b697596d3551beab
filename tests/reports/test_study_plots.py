"""Figures of studies show what their tables hold."""

import polars as pl
import pytest
from matplotlib.figure import Figure

from reports import async_sgd, papers, plots, srift, study_sections

CURVE = pl.DataFrame(
    {
        "workers": [1, 2],
        "predicted": [3.0, 5.0],
        "measured": [3.1, None],
        "error_percent": [-3.0, None],
    }
)
SERIES = pl.DataFrame({"step": [0, 5], "steps_per_s": [4.0, 5.0]})


def named(figure: Figure) -> list[str]:
    """Return what the legend below a figure names."""
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_comparisons_show_what_was_measured() -> None:
    (axes,) = async_sgd.comparison_plot({"a": CURVE, "b": CURVE.head(1)}).axes
    assert [len(line.get_xdata()) for line in axes.lines] == [2, 1, 1, 1]  # type: ignore[arg-type]
    assert axes.get_xticks().tolist() == [1, 2]
    assert axes.lines[0].get_color() == axes.lines[1].get_color() != axes.lines[2].get_color()


def test_forecasts_have_a_line_for_each_job() -> None:
    figure = study_sections.forecasts([("a", CURVE), ("b", CURVE.head(1))], "steps/s")
    (axes,) = figure.axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[3.0, 5.0], [3.0]]  # type: ignore[union-attr]
    assert named(figure) == ["a", "b"]


def test_underestimation_reaches_every_scenario() -> None:
    """Two of four are overestimated: half of them are underestimated by nothing."""
    errors = pl.Series("error_percent", [5.0, -8.0, 1.0, -2.0])
    (axes,) = srift.underestimation_plot(errors, 0.9).axes
    curve, marked = axes.lines
    assert list(curve.get_xdata()) == [0, 0, 0, 2, 8]  # type: ignore[arg-type]
    assert list(curve.get_ydata()) == [0, 0.25, 0.5, 0.75, 1]  # type: ignore[arg-type]
    assert set(marked.get_ydata()) == {0.9}  # type: ignore[arg-type]


def test_errors_have_a_line_for_each_job() -> None:
    figure = papers.errors_plot([("a", CURVE), ("b", CURVE)])
    assert named(figure) == ["a", "b"]
    assert named(papers.errors_plot([("a", CURVE), ("a", CURVE)])) == ["a", "a"]


def test_long_names_are_not_cut_off() -> None:
    name = "efficientnet_b0 64px b4, 500 Mb/s, all-reduce, W=8 (8 emu.avx2.s15)"
    for figure in (
        papers.errors_plot([(name, CURVE)] * 8),
        study_sections.forecasts([(name, CURVE)] * 8, "steps/s"),
    ):
        plots.to_svg(figure)
        (legend,) = figure.legends
        assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_more_lines_than_colours_tell_apart_have_no_legend() -> None:
    assert papers.errors_plot([(f"{place}", CURVE) for place in range(104)]).legends == []


def test_convergence_has_both_series() -> None:
    svg = plots.to_svg(async_sgd.convergence_plot(SERIES, SERIES))
    assert "measured" in svg
    assert "simulated" in svg


def test_every_connection_has_a_row() -> None:
    rows = pl.DataFrame(
        [("uplink", 0, 0, 0.0, 1.0), ("downlink", 1, 0, 0.5, 1.0), ("downlink", 1, 1, 2.0, 3.0)],
        schema=["resource", "worker", "server", "start_s", "end_s"],
        orient="row",
    )
    (axes,) = async_sgd.active_links_plot(rows).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "downlink, server 1, worker 2",
        "downlink, server 2, worker 2",
        "uplink, server 1, worker 1",
    ]


def test_balance_stacks_servers() -> None:
    (axes,) = async_sgd.balance_plot({"in turn": (3_000_000, 1_000_000), "greedy": (2, 2)}).axes
    first, second = axes.containers
    assert first[0].get_width() == pytest.approx(3)
    assert second[0].get_x() == pytest.approx(3)


def test_steps_are_parted_by_lines() -> None:
    rows = pl.DataFrame(
        [(0, "worker", 0, 5_000), (1, "worker", 5_000, 9_000), (1, "uplink", 6_000, 9_000)],
        schema=["step", "resource", "start_us", "end_us"],
        orient="row",
    )
    (axes,) = async_sgd.busy_plot(rows).axes
    assert [line.get_xdata() for line in axes.lines] == [[5.0, 5.0]]
