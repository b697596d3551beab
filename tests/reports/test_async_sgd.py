"""Overheads that are known come out as a line."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from forecasting.async_sgd import CapturedProfile, FittedModels, end_time_errors, kept_orders
from forecasting.findings.async_sgd import comparisons as compared
from forecasting.findings.async_sgd import convergence as found
from forecasting.findings.async_sgd import overheads
from forecasting.findings.async_sgd import servers as placed
from forecasting.findings.async_sgd import windows as sensitivities
from models.async_sgd.http2 import rate
from models.async_sgd.overhead import Overhead
from reports import async_sgd
from studies.rounds import Round
from tests.reports.pages import Balanced, cells, headings
from tests.reports.test_report import results


def test_overhead_has_a_line_and_a_figure_for_each_role(captured: list[CapturedProfile]) -> None:
    html = async_sgd.overhead_section(overheads(captured))
    _, server, worker = cells(html)
    assert worker[:3] == ["worker", "emu.native.c25", "2.50"]
    assert (worker[-2:], server[:2]) == (["1.000", "8"], ["server", "emu.server"])
    assert html.count('<svg role="img"') == 2
    assert Balanced(html).open == []


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


def test_overhead_is_summed_up_by_size() -> None:
    rows = pl.DataFrame({"size_bytes": [10**6, 10**6, 3 * 10**6], "overhead_s": [2e-3, 4e-3, 5e-3]})
    (axes,) = async_sgd.overhead_plot(rows, LINE, "title").axes
    points, line = axes.lines
    assert np.asarray(points.get_xydata()) == pytest.approx(np.array([[1, 3], [3, 5]]))
    assert np.asarray(line.get_xydata()) == pytest.approx(np.array([[0, 2], [3, 5]]))


def test_use_of_the_link_is_bytes_by_time() -> None:
    """15 kB in 30 ms are 4 Mb/s in each of three bins."""
    sent = pl.DataFrame({"start_us": [0], "end_us": [30_000], "bytes": [15_000]})
    carried = {
        name: rate(rows, 10_000) for name, rows in (("downlink", sent), ("uplink", sent[:0]))
    }
    (axes,) = async_sgd.link_use_plot(carried, 10_000).axes
    heights = [patch.get_height() for patch in axes.patches]  # type: ignore[attr-defined]
    assert heights == pytest.approx([4, 4, 4])


def test_jobs_that_differ_in_more_are_not_compared(round_: Round) -> None:
    assert async_sgd.comparisons_section(compared(round_.study, results(round_))) == ""
    first, second = round_.study.curves
    twin = first.model_copy(update={"batch_size": 8})
    study = round_.study.with_curves((first, twin, second))
    html = async_sgd.comparisons_section(compared(study, results(round_)))
    assert headings(html) == ["Other batch sizes", "small_cnn 16px, 200 Mb/s"]


def test_throughput_out_of_the_barrier_is_of_the_most_workers(round_: Round, landing: Path) -> None:
    html = async_sgd.convergence_section(found(round_, landing, FittedModels(round_, landing)))
    assert headings(html)[:3] == ["How workers drift apart after the start", "small_cnn", "alexnet"]
    assert "by steps since the start, alexnet 64px b4, unshaped, W=3" in html
    assert headings(html)[3] == "When links are in use"
    assert html.count('<svg role="img"') == 4
    assert Balanced(html).open == []


def test_each_network_has_a_row(captured: list[CapturedProfile]) -> None:
    assert cells(async_sgd.END_TIMES.html(end_time_errors(captured)))[1] == [
        "small_cnn",
        *["6.2 %"] * 4,
        "4",
    ]


def test_one_transfer_a_step_has_no_order(captured: list[CapturedProfile]) -> None:
    assert cells(async_sgd.ORDERS.html(kept_orders(captured)))[2] == [
        *["alexnet 64px b4, unshaped", "framework", "—", "0", "—", "4"]
    ]


def test_variables_are_divided_among_servers(round_: Round, landing: Path) -> None:
    html = async_sgd.servers_section(placed(round_, landing, FittedModels(round_, landing)))
    assert cells(html)[1] == ["small_cnn", "1", "2", "round robin", "0.40 MB", "100.0 %"]
    assert len(cells(html)) == 9


def test_sensitivity_names_the_announced_window(
    captured_round: Round, captured: list[CapturedProfile], landing: Path
) -> None:
    models = FittedModels(captured_round, landing)
    by_run = {run.run_id: models[part] for part, run in captured_round.runs_of("tf_trace").items()}
    rows = cells(async_sgd.windows_section(sensitivities(captured, by_run)))[1:]
    assert [row[2] for row in rows] == ["2", "3", "4"] * 2
    # A window of 1.5 times 0.3 MB is longer than the tensors.
    assert {(row[1], row[-1]) for row in rows} == {("0.286102 MiB, announced", "+0.0 %")}
