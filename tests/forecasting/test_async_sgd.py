"""What captures of two curves on paper show: streams go out whole, 1 and 2 ms before their ends."""

from dataclasses import replace
from pathlib import Path

import pytest

from forecasting.async_sgd import (
    CapturedProfile,
    announced_windows,
    behaviours,
    captured_profiles,
    end_time_errors,
    kept_orders,
    overhead_lines,
    overhead_rows,
)
from studies.rounds import Round
from tests.synthetic import WINDOW_BYTES


def test_profiles_without_captures_are_left_out(round_: Round, landing: Path) -> None:
    assert captured_profiles(round_, landing) == []
    for none in (behaviours([]), end_time_errors([]), kept_orders([])):
        assert none.is_empty()
    assert overhead_lines([]) == {}


def test_profiles_whose_links_were_not_probed_are_left_out(
    captured_round: Round, landing: Path
) -> None:
    unprobed = tuple(run for run in captured_round.runs if run.probe != "links")
    assert captured_profiles(replace(captured_round, runs=unprobed), landing) == []


def test_overheads_have_a_line_for_each_role(captured: list[CapturedProfile]) -> None:
    """Records end 1 ms after 400 kB, and 2 ms after twice as much: 2.5 ns a byte and nothing."""
    lines = overhead_lines(captured)
    assert set(lines) == {("server", "emu.server"), ("worker", "emu.native.c25")}
    worker = lines["worker", "emu.native.c25"]
    assert worker.n == 8
    assert worker.alpha_s_per_byte == pytest.approx(2.5e-9)
    assert worker.beta_s == pytest.approx(0, abs=1e-9)
    assert overhead_rows(captured)["server", "emu.server"].height == 8
    assert overhead_lines(captured[:1]) == {}


def test_streams_are_described_by_direction(captured: list[CapturedProfile]) -> None:
    rows = behaviours(captured)
    assert rows.select("dnn", "direction").rows()[:2] == [
        ("small_cnn", "downlink"),
        ("small_cnn", "uplink"),
    ]
    assert rows["first_window_bytes"].to_list() == [WINDOW_BYTES] * 4
    assert rows["longer"].to_list() == [4] * 4
    assert rows["suspended"].to_list() == [0] * 4
    assert announced_windows(captured[0], "uplink").rows() == [(0.0, WINDOW_BYTES)]


def test_table_1_has_a_row_for_each_network(captured: list[CapturedProfile]) -> None:
    """Asked for after 1 ms and sent in 16; the last packet came after 16 ms: 1/16 too late."""
    rows = end_time_errors(captured)
    assert rows["dnn"].to_list() == ["small_cnn", "alexnet"]
    assert rows["n"].to_list() == [4, 4]
    assert rows["mean"].to_list() == pytest.approx([1 / 16] * 2)
    assert rows["maximum"].to_list() == pytest.approx([1 / 16] * 2)


def test_one_transfer_a_step_has_no_order(captured: list[CapturedProfile]) -> None:
    rows = kept_orders(captured)
    assert rows["order"].to_list() == ["framework"] * 2
    assert rows["steps"].to_list() == [4, 4]
    assert rows["as_requested"].to_list() == [None, None]
