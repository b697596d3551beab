"""Figures of captures show what their tables hold."""

import numpy as np
import polars as pl
import pytest

from models.async_sgd.http2 import rate
from models.async_sgd.overhead import Overhead
from reports import async_sgd, plots

LINE = Overhead(
    node_type="small",
    role="worker",
    alpha_s_per_byte=1e-9,
    alpha_low=0.0,
    alpha_high=2e-9,
    beta_s=2e-3,
    beta_low=1e-3,
    beta_high=3e-3,
    r_squared=0.5,
    coverage=0.95,
    n=4,
)
PIECES = pl.DataFrame(
    [(0, 1, 3, 10, 13), (0, 3, 2, 13, 15), (0, 1, 2, 15, 17), (0, 5, 0, 17, 17)],
    schema=["server", "stream", "bytes", "start_us", "end_us"],
    orient="row",
)


def test_overhead_is_summed_up_by_size() -> None:
    rows = pl.DataFrame({"size_bytes": [10**6, 10**6, 3 * 10**6], "overhead_s": [2e-3, 4e-3, 5e-3]})
    (axes,) = async_sgd.overhead_plot(rows, LINE, "title").axes
    points, line = axes.lines
    assert np.asarray(points.get_xydata()) == pytest.approx(np.array([[1, 3], [3, 5]]))
    assert np.asarray(line.get_xydata()) == pytest.approx(np.array([[0, 2], [3, 5]]))


def test_windows_last_until_all_have_ended() -> None:
    short = pl.DataFrame({"seconds": [0.0], "window_bytes": [2**22]})
    long = pl.DataFrame({"seconds": [0.0, 5.0], "window_bytes": [2**22, 2**24]})
    (axes,) = async_sgd.windows_plot({"a": short, "b": long}).axes
    short_line, long_line = (np.asarray(line.get_data()).tolist() for line in axes.lines)
    assert short_line == [[0, 5], [4, 4]]
    assert long_line == [[0, 5, 5], [4, 16, 16]]


def test_suspended_streams_stand_out() -> None:
    (axes,) = async_sgd.multiplexing_plot(PIECES).axes
    svg = plots.to_svg(axes.figure)  # type: ignore[arg-type]
    assert "in one piece (2)" in svg
    assert "in several (1)" in svg
    assert len(axes.patches) == 4


def test_use_of_the_link_is_bytes_by_time() -> None:
    """15 kB in 30 ms are 4 Mb/s in each of three bins."""
    sent = pl.DataFrame({"start_us": [0], "end_us": [30_000], "bytes": [15_000]})
    carried = {
        name: rate(rows, 10_000) for name, rows in (("downlink", sent), ("uplink", sent[:0]))
    }
    (axes,) = async_sgd.link_use_plot(carried, 10_000).axes
    heights = [patch.get_height() for patch in axes.patches]  # type: ignore[attr-defined]
    assert heights == pytest.approx([4, 4, 4])
