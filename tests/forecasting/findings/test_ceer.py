"""Figures of Ceer, of DNNs that follow a law: their rows by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest

from forecasting.ceer_study import CeerMeasurements
from forecasting.findings import ceer
from forecasting.findings.figure import MeasuredRound
from tests.models.ceer.frames import observed, steps
from tests.models.ceer.test_predictor import measured, rows

TYPES = {"slow": "emu.sse41.s40", "fast": "emu.avx512.s40"}


@pytest.fixture(scope="module")
def lawful() -> CeerMeasurements:
    """Six DNNs whose steps follow a law, two of them unseen; the dearer type is 5 times as fast."""
    named = pl.col("node_type").replace(TYPES)
    varying = observed(*rows()).with_columns(named, sd_us=pl.col("mean_us") * 0.05)
    return CeerMeasurements(varying, steps(*measured()).with_columns(named), ("e", "f"))


def found(of: CeerMeasurements) -> MeasuredRound:
    """Return a round that measured these."""
    return cast("MeasuredRound", SimpleNamespace(ceer=of))


def known(rows: pl.DataFrame | None) -> pl.DataFrame:
    assert rows is not None
    return rows


def test_devices_are_compared_with_one(lawful: CeerMeasurements) -> None:
    relative = known(ceer.devices(found(lawful)))
    assert set(relative["dnn"]) == {"a", "b", "c", "d"}
    assert set(relative.filter(devices=1)["relative_time"]) == {1.0}


def test_unseen_dnns_that_follow_the_law_are_forecast(lawful: CeerMeasurements) -> None:
    errors = {row["left_out"]: row for row in known(ceer.unseen_steps(found(lawful))).to_dicts()}
    whole = errors["test set"]
    assert (whole["steps"], whole["not_known"]) == (8, 0)
    assert whole["absolute_percent"] == pytest.approx(0, abs=1e-4)
    assert errors["test set, without light"]["mean_percent"] < 0
    assert errors["test set, without overhead"]["mean_percent"] < 0
    assert [name for name in errors if "itself" in name] == [f"{d} by itself" for d in "abcdef"]


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
    scenarios = ["hourly budget", "total budget", "cheapest", "market prices"]
    assert choices.filter(dnn="e")["scenario"].to_list() == scenarios
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
    of = cast("MeasuredRound", SimpleNamespace(ceer=unpriced))
    assert ceer.choices(of) is None
