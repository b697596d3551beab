"""Table 1 of two networks on paper."""

from forecasting.captured import CapturedProfile
from reports.sections import end_times
from tests.reports.pages import cells


def test_nothing_captured_is_no_section() -> None:
    assert end_times.section([]) == ""


def test_each_network_has_a_row(captured: list[CapturedProfile]) -> None:
    assert cells(end_times.section(captured))[1] == ["small_cnn", *["6.2 %"] * 4, "4"]
