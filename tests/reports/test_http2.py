"""Streams that went out whole, under a window shorter than they are."""

from forecasting.async_sgd import CapturedProfile
from forecasting.findings.async_sgd import http2 as found
from reports import async_sgd
from tests.reports.pages import Balanced, cells, headings


def test_nothing_captured_is_no_section() -> None:
    assert found([]) is None
    assert async_sgd.http2_section(None) == ""


def test_http2_says_how_streams_were_served(captured: list[CapturedProfile]) -> None:
    html = async_sgd.http2_section(found(captured))
    assert cells(html)[1] == [
        "small_cnn 16px b4, unshaped", "downlink", "0.286 MiB", "0.381 MiB", "4", "4", "0", "—",
        "100.0 %", "—", "—", "—", "1",
    ]  # fmt: skip
    assert len(cells(html)) == 5
    assert [heading.partition(",")[0] for heading in headings(html)[1:]] == [
        "WIN as the worker announced it",
        "Streams of one downlink",
        "What the link carried in a step",
    ]
    assert "When each of 1 streams was sent in traced step" in html
    assert Balanced(html).open == []
