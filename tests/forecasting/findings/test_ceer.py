"""Figures of Ceer, of DNNs that follow a law: their rows by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest

from forecasting.ceer_study import CeerMeasurements
from forecasting.findings import ceer
from forecasting.findings.figure import MeasuredRound
from models.ceer import predictor
from tests.models.ceer.frames import observed, operation, steps
from tests.models.ceer.test_predictor import measured, rows

TYPES = {"slow": "emu.sse41.s40", "fast": "emu.avx512.s40"}


@pytest.fixture(scope="module")
def lawful() -> CeerMeasurements:
    """Six DNNs whose steps follow a law, two of them unseen; the dearer type is 5 times as fast."""
    named = pl.col("node_type").replace(TYPES)
    varying = observed(*rows()).with_columns(named, sd_us=pl.col("mean_us") * 0.05)
    return CeerMeasurements(varying, steps(*measured()).with_columns(named), ("e", "f"))


def found(of: CeerMeasurements, noise: float | None = None) -> MeasuredRound:
    """Return a round that measured these, and a model fitted to what predictors saw."""
    operations, steps_ = of.fitted
    model = predictor.fit(operations=operations, steps=steps_)
    return cast("MeasuredRound", SimpleNamespace(ceer=(of, model), noise=noise))


def known(rows: pl.DataFrame | None) -> pl.DataFrame:
    assert rows is not None
    return rows


def test_heavy_operations_are_shown_with_what_fits_them(lawful: CeerMeasurements) -> None:
    # 2 of 1000, 3 of 50, 1 of 10 µs; on a fifth of them the last counts more.
    shares = known(ceer.class_shares(found(lawful)))
    assert shares.row(0)[2:] == pytest.approx((90.9, 6.8, 2.3), abs=0.05)
    assert shares.row(1)[:2] == ("a", "emu.sse41.s40")
    assert set(shares["dnn"]) == {"a", "b", "c", "d"}, "fitted ones only"
    times = known(ceer.heavy_times(found(lawful)))
    assert times["type"].unique().to_list() == ["Conv2D"]
    assert times.filter(node_type="emu.sse41.s40")["ms"].to_list() == pytest.approx([2.5])
    assert (times["billionths_of_usd"] > 0).all()
    deviations = known(ceer.heavy_deviations(found(lawful)))
    assert deviations["deviation"].to_list() == pytest.approx([0.05] * deviations.height)
    by_input = known(ceer.times_by_input(found(lawful)))
    assert by_input["ms"].to_list() == pytest.approx(by_input["line_ms"].to_list(), abs=1e-6)
    assert by_input["r_squared"].to_list() == pytest.approx([1.0] * by_input.height)
    fits = known(ceer.regressions(found(lawful)))
    assert set(fits.select("type", "form", "operations").rows()) == {("Conv2D", "proportional", 4)}


def test_a_study_without_heavy_operations_has_none(lawful: CeerMeasurements) -> None:
    brief = replace(
        lawful, operations=lawful.operations.with_columns(pl.col("mean_us", "sd_us") / 1000)
    )
    assert set(known(ceer.class_shares(found(brief))).columns) & {"heavy_percent"} == set()
    assert known(ceer.heavy_times(found(brief))).is_empty()
    assert ceer.times_by_input(found(brief)) is None
    assert ceer.regressions(found(brief)) is None
    assert known(ceer.unseen_operations(found(brief))).is_empty()


def test_devices_are_compared_with_one(lawful: CeerMeasurements) -> None:
    relative = known(ceer.devices(found(lawful)))
    assert set(relative["dnn"]) == {"a", "b", "c", "d"}
    assert set(relative.filter(devices=1)["relative_time"]) == {1.0}
    overheads = known(ceer.step_overheads(found(lawful)))
    assert set(overheads["setup"]) == {"1 device", "2 devices"}
    # 1 ms and 1 ns a parameter, 3 ns for two.
    two = overheads.filter(setup="2 devices", millions_of_parameters=4.0)
    assert two["line_s"].to_list() == pytest.approx([0.001 + 0.012] * 2)


def test_unseen_dnns_that_follow_the_law_are_forecast(lawful: CeerMeasurements) -> None:
    errors = {row["left_out"]: row for row in known(ceer.unseen_steps(found(lawful))).to_dicts()}
    whole = errors["test set"]
    assert (whole["steps"], whole["not_known"]) == (8, 0)
    assert whole["absolute_percent"] == pytest.approx(0, abs=1e-4)
    assert errors["test set, without light"]["mean_percent"] < 0
    assert errors["test set, without overhead"]["mean_percent"] < 0
    assert [name for name in errors if "itself" in name] == [f"{d} by itself" for d in "abcdef"]
    (conv,) = known(ceer.unseen_operations(found(lawful))).to_dicts()
    # 2000 of 2160 us or so, by node type and network; heavy ones alone are listed.
    assert (conv["type"], conv["operations"]) == ("Conv2D", 4)
    assert conv["absolute_percent"] == pytest.approx(0, abs=1e-4)
    assert conv["share_percent"] == pytest.approx(92.6, abs=0.5)
    pairs = known(ceer.order_of_node_types(found(lawful, noise=0.02)))
    assert pairs.rows() == [("e", 2, 2, 0), ("f", 2, 2, 0)]
    close = known(ceer.order_of_node_types(found(lawful, noise=1e9)))
    assert close.rows() == [("e", 0, 0, 2), ("f", 0, 0, 2)]


def test_errors_of_operations_are_per_type(lawful: CeerMeasurements) -> None:
    new = observed(
        operation("new", "Conv2D", 1250.0, node=TYPES["slow"], count=2),
        operation("new", "Conv2D", 500.0, node=TYPES["slow"], inputs=((125_000,),)),
        operation("new", "Relu", 50.0, node=TYPES["slow"]),
    ).with_columns(sd_us=0.05 * pl.col("mean_us"))
    seen = pl.concat([lawful.operations, new.select(lawful.operations.columns)])
    measured_ = replace(lawful, operations=seen, unseen=("new",))
    model = found(lawful).ceer[1]  # type: ignore[index]
    of = cast("MeasuredRound", SimpleNamespace(ceer=(measured_, model)))
    (convolution,) = known(ceer.unseen_operations(of)).to_dicts()
    # 1000 instead of 1250 twice, 500 instead of 500.
    assert convolution["operations"] == 2
    assert convolution["absolute_percent"] == pytest.approx(10)
    assert convolution["sum_error_percent"] == pytest.approx(100 * (2500 / 3000 - 1))
    assert convolution["share_percent"] == pytest.approx(100 * 3000 / 3050)


def test_steps_without_a_forecast_say_which_operations_no_other_dnn_has(
    lawful: CeerMeasurements,
) -> None:
    einsum = lawful.operations.filter(
        pl.col("dnn") == "c", pl.col("type") == "Conv2D"
    ).with_columns(type=pl.lit("Einsum"))
    more = replace(lawful, operations=pl.concat([lawful.operations, einsum]))
    unknown = known(ceer.unseen_steps(found(more))).filter(pl.col("not_known") > 0)
    assert unknown.select("left_out", "not_known", "because_of").rows() == [
        ("c by itself", 4, "Einsum")
    ]


def test_choices_are_judged_by_what_was_measured(lawful: CeerMeasurements) -> None:
    choices = known(ceer.choices(found(lawful)))
    assert choices.filter(dnn="e")["scenario"].to_list() == [
        "hourly budget",
        "total budget",
        "cheapest",
        "market prices",
    ]
    regret = choices["regret_forecast_percent"]
    assert regret.to_list() == pytest.approx([0.0] * 8, abs=1e-4), "who knows the law"
    # 10.8 ms of operations or 2.2, and 26 of S on both: speed is not worth three times the price.
    (cheapest,) = choices.filter(dnn="e", scenario="cheapest").to_dicts()
    assert cheapest["choice"] == "1 emu.sse41.s40"
    assert cheapest["regret_cheapest_percent"] == 0
    assert cheapest["regret_most_powerful_percent"] > 100
    unpriced = replace(
        lawful, operations=lawful.operations.with_columns(node_type=pl.lit("p3.2xlarge"))
    )
    of = cast("MeasuredRound", SimpleNamespace(ceer=(unpriced, None)))
    assert ceer.choices(of) is None
