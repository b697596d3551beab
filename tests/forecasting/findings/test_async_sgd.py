"""Figures of asynchronous SGD, of rounds on paper and of captured packets that are known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from forecasting.findings import async_sgd
from forecasting.findings.figure import MeasuredRound
from studies.rounds import Round
from tests.reports.test_report import results
from warehouse.warehouse import Warehouse


def of(round_: Round, home: Path, **known: Any) -> MeasuredRound:
    """Return a round, of which some is known and need not be asked for."""
    warehouse = Warehouse(home)
    warehouse.load()
    found = MeasuredRound(round_, warehouse)
    vars(found).update(known)
    return found


def rows_of(frame: pl.DataFrame | None) -> pl.DataFrame:
    assert frame is not None
    return frame


def test_streams_of_captured_packets_are_drawn(captured_round: Round, home: Path) -> None:
    found = of(captured_round, home)
    streams = rows_of(async_sgd.streams(found))
    assert (streams["stream"].n_unique(), set(streams["sent"])) == (1, {"in one piece"})
    assert (streams["end_ms"] > streams["start_ms"]).all()


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
    busy = of(round_, home, rows=results(round_).with_columns(host_busy=pl.col("dnn") == "alexnet"))
    assert rows_of(async_sgd.errors_by_batch(busy))["dnn"].to_list() == ["small_cnn"]
    unknown = results(round_).with_columns(error_percent=pl.lit(None, pl.Float64))
    assert rows_of(async_sgd.errors_by_batch(of(round_, home, rows=unknown))).is_empty()


def test_throughput_out_of_the_barrier_is_of_the_most_workers(round_: Round, home: Path) -> None:
    rows = rows_of(async_sgd.convergence(of(round_, home)))
    scenarios = rows["scenario"].unique(maintain_order=True).to_list()
    assert [name.partition(" ")[0] for name in scenarios] == ["small_cnn", "alexnet"]
    assert scenarios[1] == "alexnet 64px b4, unshaped, W=3"
    assert (rows["measured"] > 0).all() and (rows["simulated"] > 0).all()


def test_each_network_has_traced_steps(round_: Round, home: Path) -> None:
    found = of(round_, home)
    traced = rows_of(async_sgd.traced_steps(found))
    assert traced["profile"].unique(maintain_order=True).to_list() == [
        "small_cnn 16px b4, unshaped, W=1",
        "alexnet 64px b4, unshaped, W=1",
    ]
    nothing = of(replace(round_, runs=()), home)
    assert async_sgd.traced_steps(nothing) is None
