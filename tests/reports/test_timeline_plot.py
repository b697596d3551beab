"""Pictures of timelines: a row for each worker and resource."""

import polars as pl

from models.async_sgd.timeline import INTERVALS, STEPS, Timeline
from reports import plots
from reports.timelines import worker_plot

STEPS_OF_TWO = pl.DataFrame(
    [(0, 50, 0, 9_000), (0, 51, 9_500, 20_000), (1, 49, 4_000, 15_000)], schema=STEPS, orient="row"
)
RAN = pl.DataFrame(
    [
        (0, 50, 0, "a", "downlink", 0, 0, 3_000, 9.0),
        (0, 50, 1, "b", "worker", None, 3_000, 9_000, None),
        (0, 50, 2, "c", "worker", None, 3_000, 3_000, None),
        (1, 49, 1, "b", "worker", None, 4_000, 15_000, None),
    ],
    schema=INTERVALS,
    orient="row",
)
SIMULATED = Timeline(STEPS_OF_TWO, RAN)


def test_each_worker_has_a_row_of_steps_and_one_of_each_resource_in_use() -> None:
    (axes,) = worker_plot(SIMULATED, "title").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "worker 0: steps", "downlink", "compute", "worker 1: steps", "downlink", "compute",
    ]  # fmt: skip


def test_bars_are_where_things_ran() -> None:
    (axes,) = worker_plot(SIMULATED).axes
    bars = [
        [(path.get_extents().x0, path.get_extents().x1) for path in row.get_paths()]
        for row in axes.collections
    ]
    assert bars[0] == [(0, 9), (9.5, 20)]
    assert bars[2] == [(3, 9)], "what takes no time is left out"
    assert bars[5] == [(4, 15)]
    assert [text.get_text() for text in axes.texts] == ["50", "51", "49"]


def test_it_can_be_drawn() -> None:
    figure = worker_plot(SIMULATED)
    assert plots.to_png(figure, dpi=50).startswith(b"\x89PNG")
    assert "worker 1" in plots.to_svg(figure)
