"""The orders of two profiles on paper."""

from forecasting.packet_captures import CapturedProfile, kept_orders
from reports import async_sgd
from tests.reports.pages import cells


def test_nothing_captured_is_no_section() -> None:
    assert async_sgd.ORDERS.html(kept_orders([])) == ""


def test_one_transfer_a_step_has_no_order(captured: list[CapturedProfile]) -> None:
    assert cells(async_sgd.ORDERS.html(kept_orders(captured)))[2] == [
        *["alexnet 64px b4, unshaped", "framework", "—", "0", "—", "4"]
    ]
