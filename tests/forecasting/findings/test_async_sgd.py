"""Figures of asynchronous SGD, of rounds on paper and of captured packets that are known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from forecasting.async_sgd import CapturedProfile, overhead_by_size
from forecasting.findings import async_sgd
from forecasting.findings.figure import MeasuredRound
from models.async_sgd.overhead import Overhead
from studies.rounds import Round
from tests.reports.test_report import results
from warehouse.warehouse import Warehouse

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


def of(round_: Round, home: Path, **known: Any) -> MeasuredRound:
    """Return a round, of which some is known and need not be asked for."""
    found = MeasuredRound(round_, Warehouse(home))
    vars(found).update(known)
    return found


def rows_of(frame: pl.DataFrame | None) -> pl.DataFrame:
    assert frame is not None
    return frame


def test_overhead_is_summed_up_by_size() -> None:
    rows = pl.DataFrame({"size_bytes": [10**6, 10**6, 3 * 10**6], "overhead_s": [2e-3, 4e-3, 5e-3]})
    points = overhead_by_size(rows, LINE)
    assert points["size_mb"].to_list() == [1, 3]
    assert points["median_ms"].to_list() == pytest.approx([3, 5])
    assert points["line_ms"].to_list() == pytest.approx([3, 5])


def test_captured_packets_have_their_figures(
    captured_round: Round, captured: list[CapturedProfile], home: Path
) -> None:
    found = of(captured_round, home, captured=captured)
    lines = {row["role"]: row for row in rows_of(async_sgd.overhead_fits(found)).to_dicts()}
    assert lines["worker"]["node_type"] == "emu.native.c25"
    assert 1e9 * lines["worker"]["alpha_s_per_byte"] == pytest.approx(2.5)
    assert (lines["worker"]["n"], lines["worker"]["r_squared"]) == (8, pytest.approx(1))
    received = set(rows_of(async_sgd.overheads(found))["received_by"])
    assert received == {"emu.native.c25 as worker", "emu.server as server"}
    assert rows_of(async_sgd.windows(found))["window_mib"].to_list() == pytest.approx(
        [0.286102] * 2, rel=1e-4
    )
    streams = rows_of(async_sgd.streams(found))
    assert (streams["stream"].n_unique(), set(streams["sent"])) == (1, {"in one piece"})
    assert (streams["end_ms"] > streams["start_ms"]).all()
    changes = rows_of(async_sgd.window_changes(found))
    assert set(changes["workers"]) == {2, 3, 4}
    # A window of 1.5 times 0.3 MB is longer than the tensors.
    assert set(changes.filter(factor=1.5)["change_percent"]) == {0.0}


def test_curves_stand_beside_each_other(round_: Round, home: Path) -> None:
    first, second = round_.study.curves
    twin = first.model_copy(update={"batch_size": 8})
    study = round_.study.with_curves((first, twin, second))
    rows = results(round_).with_columns(predicted=pl.lit(2.0))
    found = of(replace(round_, study=study), home, rows=rows)
    examples = rows_of(async_sgd.examples_per_s(found))
    settings = examples.group_by("network").agg(pl.col("setting").unique().sort())
    assert dict(settings.iter_rows())["small_cnn 16px"] == ["b4, 200 Mb/s", "b8, 200 Mb/s"]
    assert set(examples.filter(setting="b8, 200 Mb/s")["predicted"]) <= {16.0}


def test_errors_are_of_judged_scenarios(round_: Round, home: Path) -> None:
    found = of(round_, home, rows=results(round_))
    assert rows_of(async_sgd.errors_by_batch(found)).rows() == [
        ("alexnet", 4, 1, 25.0, 25.0, 25.0),
        ("small_cnn", 4, 1, 5.0, 5.0, 5.0),
    ]
    curves = rows_of(async_sgd.errors_by_workers(found))
    assert curves["dnn"].unique(maintain_order=True).to_list() == ["small_cnn", "alexnet"]
    busy = of(round_, home, rows=results(round_).with_columns(host_busy=pl.col("dnn") == "alexnet"))
    assert rows_of(async_sgd.errors_by_batch(busy))["dnn"].to_list() == ["small_cnn"]
    unknown = results(round_).with_columns(error_percent=pl.lit(None, pl.Float64))
    assert async_sgd.errors_by_batch(of(round_, home, rows=unknown)) is None


def test_throughput_out_of_the_barrier_is_of_the_most_workers(round_: Round, home: Path) -> None:
    rows = rows_of(async_sgd.convergence(of(round_, home)))
    scenarios = rows["scenario"].unique(maintain_order=True).to_list()
    assert [name.partition(" ")[0] for name in scenarios] == ["small_cnn", "alexnet"]
    assert scenarios[1] == "alexnet 64px b4, unshaped, W=3"
    assert (rows["measured"] > 0).all() and (rows["simulated"] > 0).all()


def test_each_network_has_traced_steps_and_divided_variables(round_: Round, home: Path) -> None:
    found = of(round_, home)
    traced = rows_of(async_sgd.traced_steps(found))
    assert traced["profile"].unique(maintain_order=True).to_list() == [
        "small_cnn 16px b4, unshaped, W=1",
        "alexnet 64px b4, unshaped, W=1",
    ]
    placed = rows_of(async_sgd.servers(found))
    assert placed.row(0) == ("small_cnn", 1, 2, "round_robin", pytest.approx(0.4, rel=0.01), 100.0)
    assert placed.height == 8
    nothing = of(replace(round_, runs=()), home)
    assert async_sgd.traced_steps(nothing) is None
    assert async_sgd.servers(nothing) is None
