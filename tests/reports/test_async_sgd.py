"""Overheads that are known come out as a line."""

from forecasting.findings.async_sgd import overheads
from forecasting.packet_captures import CapturedProfile
from reports import async_sgd
from tests.reports.pages import Balanced, cells


def test_nothing_captured_is_no_section() -> None:
    assert async_sgd.overhead_section(overheads([])) == ""


def test_overhead_has_a_line_and_a_figure_for_each_role(captured: list[CapturedProfile]) -> None:
    html = async_sgd.overhead_section(overheads(captured))
    _, server, worker = cells(html)
    assert worker[:3] == ["worker", "emu.native.c25", "2.50"]
    assert (worker[-2:], server[:2]) == (["1.000", "8"], ["server", "emu.server"])
    assert html.count('<svg role="img"') == 2
    assert Balanced(html).open == []
