"""Sections show what a round has, and nothing where it has nothing."""

import re
from html.parser import HTMLParser
from pathlib import Path

import polars as pl

from assets.captured import CapturedProfile
from assets.rounds import Round
from assets.sections import (
    comparisons,
    convergence,
    end_times,
    errors,
    http2,
    order,
    overhead,
    servers,
    windows,
)
from assets.simulations import fitted_models
from tests.assets.test_report import results


def cells(html: str) -> list[list[str]]:
    """Return the text of the table cells, row by row, figures left out."""
    html = re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL)
    rows = re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL)
    return [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]


def headings(html: str) -> list[str]:
    return re.findall(r"<h[23]>(.*?)</h[23]>", html)


class Balanced(HTMLParser):
    """Keeps the elements that are open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_nothing_captured_is_no_section() -> None:
    for section in (overhead, http2, end_times, order):
        assert section.section([]) == ""
    assert windows.section([], {}) == ""


def test_overhead_has_a_line_and_a_figure_for_each_role(captured: list[CapturedProfile]) -> None:
    html = overhead.section(captured)
    _, server, worker = cells(html)
    assert worker[:3] == ["worker", "emu.native.c25", "2.50"]
    assert (worker[-2:], server[:2]) == (["1.00", "8"], ["server", "emu.server"])
    assert html.count('<svg role="img"') == 2
    assert Balanced(html).open == []


def test_http2_says_how_streams_were_served(captured: list[CapturedProfile]) -> None:
    html = http2.section(captured)
    assert cells(html)[1] == [
        "small_cnn 16px b4, unshaped", "downlink", "0.286 MiB", "0.381 MiB", "4", "4", "0", "—",
        "100.0 %", "—", "—", "—", "1",
    ]  # fmt: skip
    assert len(cells(html)) == 5
    assert [one.partition(",")[0] for one in headings(html)[1:]] == [
        "WIN as the worker announced it",
        "Streams of one downlink",
        "What the link carried in a step",
    ]
    assert "When each of 1 streams was sent in traced step" in html
    assert Balanced(html).open == []


def test_table_1_and_orders_are_tables(captured: list[CapturedProfile]) -> None:
    assert cells(end_times.section(captured))[1] == ["small_cnn", *["6.2 %"] * 4, "4"]
    assert cells(order.section(captured))[2] == [
        "alexnet 64px b4, unshaped", "framework", "—", "0", "—", "4",
    ]  # fmt: skip


def test_sensitivity_names_the_announced_window(
    captured_round: Round, captured: list[CapturedProfile], landing: Path
) -> None:
    models = fitted_models(captured_round, landing)
    by_run = {run.run_id: models[part] for part, run in captured_round.runs_of("tf_trace").items()}
    rows = cells(windows.section(captured, by_run))[1:]
    assert [row[2] for row in rows] == ["2", "3", "4"] * 2
    # A window of 1.5 times 0.3 MB is longer than the tensors.
    assert {(row[1], row[-1]) for row in rows} == {("0.286102 MiB, announced", "+0.0 %")}


def test_throughput_out_of_the_barrier_is_of_the_most_workers(round_: Round, landing: Path) -> None:
    html = convergence.section(round_, landing, fitted_models(round_, landing))
    assert headings(html)[:3] == ["Out of the initial synchronisation", "small_cnn", "alexnet"]
    assert "by steps since the start, alexnet 64px b4, unshaped, W=3" in html
    assert headings(html)[3] == "Links in use"
    assert html.count('<svg role="img"') == 4
    assert Balanced(html).open == []


def test_before_anything_is_measured_there_is_no_convergence(round_: Round, landing: Path) -> None:
    assert convergence.section(round_, landing, {}) == ""


def test_variables_are_divided_among_servers(round_: Round, landing: Path) -> None:
    html = servers.section(round_, landing, fitted_models(round_, landing))
    assert cells(html)[1] == ["small_cnn", "1", "2", "round robin", "0.40 MB", "100.0 %"]
    assert len(cells(html)) == 9


def test_errors_are_of_judged_scenarios(round_: Round) -> None:
    rows = results(round_)
    html = errors.section(round_.study, rows)
    assert cells(html)[1:] == [
        ["alexnet", "4", "1", "+25.0 %", "25.0 %", "25.0 %"],
        ["small_cnn", "4", "1", "+5.0 %", "5.0 %", "5.0 %"],
    ]
    assert headings(html)[1:] == ["small_cnn", "alexnet"]
    unknown = rows.with_columns(error_percent=pl.lit(None, pl.Float64))
    assert errors.section(round_.study, unknown) == ""


def test_jobs_that_differ_in_more_are_not_compared(round_: Round) -> None:
    assert comparisons.section(round_.study, results(round_)) == ""
    first, second = round_.study.jobs
    twin = first.model_copy(update={"batch_size": 8})
    study = round_.study.model_copy(update={"jobs": (first, twin, second)})
    html = comparisons.section(study, results(round_))
    assert headings(html) == ["Batch sizes", "small_cnn 16px, 200 Mb/s"]
