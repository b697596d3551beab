"""Table 1 of two networks on paper."""

from forecasting.packet_captures import CapturedProfile, end_time_errors
from reports import async_sgd
from tests.reports.pages import cells


def test_nothing_captured_is_no_section() -> None:
    assert async_sgd.END_TIMES.html(end_time_errors([])) == ""


def test_each_network_has_a_row(captured: list[CapturedProfile]) -> None:
    assert cells(async_sgd.END_TIMES.html(end_time_errors(captured)))[1] == [
        "small_cnn",
        *["6.2 %"] * 4,
        "4",
    ]
