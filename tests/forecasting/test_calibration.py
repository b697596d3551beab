"""Forecasts that are corrected by a measured step."""

from pathlib import Path
from shutil import copytree

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.calibration import (
    MeasuredStep,
    corrected,
    shift_step_s,
    step_covers,
    with_measured,
    write_corrected,
)
from forecasting.forecast import ForecastAnswer, predict_curves
from forecasting.history_scope import visible_runs
from forecasting.inputs import systems_named
from studies.curve import Curve
from tests.forecasting.test_asked import async_curve, torch_curves
from tests.forecasting.test_nearest import asynchronous, scenario
from tests.made_run import raw_table
from tests.my_history import of_host
from warehouse.landing import land
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

SECONDS = st.floats(1e-3, 1e3)


@pytest.fixture
def warehouse(small_history: Path, tmp_path: Path) -> Warehouse:
    """Return a copy of the history, which a test may change."""
    return Warehouse(Path(copytree(small_history, tmp_path / "copy")))


def predict(
    warehouse: Warehouse, curves: list[Curve], name: str, step: MeasuredStep, dry_run: bool = False
) -> ForecastAnswer:
    """Return corrected forecasts, as `stepcast predict --calibrate` has them."""
    systems = systems_named(name.split())
    asked = with_measured(curves, step)
    answer = predict_curves(warehouse, asked, systems, dry_run=dry_run)
    answer = corrected(answer, curves, step)
    return answer if dry_run else write_corrected(answer, warehouse)


def test_passes_that_take_longer_are_added() -> None:
    # 0.3 s were forecast of one node, it took 0.4; so 0.5 s of several become 0.6.
    assert shift_step_s(0.5, 0.3, 0.4) == pytest.approx(0.6)
    assert shift_step_s(0.5, 0.3, 0.2) == pytest.approx(0.4)
    # A step cannot lose more than its part: half the time is half the time.
    assert shift_step_s(0.1, 0.3, 0.15) == pytest.approx(0.05)


@given(SECONDS, SECONDS, SECONDS)
def test_corrections(forecast_s: float, anchor_s: float, measured_s: float) -> None:
    """They are positive, of the measured step what it took, and nothing if it was as forecast."""
    assert shift_step_s(forecast_s, anchor_s, measured_s) > 0
    assert shift_step_s(anchor_s, anchor_s, measured_s) == pytest.approx(measured_s)
    assert shift_step_s(forecast_s, anchor_s, anchor_s) == pytest.approx(forecast_s)
    slower = shift_step_s(forecast_s, anchor_s, anchor_s * 1.5)
    assert slower == pytest.approx(forecast_s + anchor_s * 0.5)


def test_a_step_tells_of_the_same_passes_with_as_many_workers_or_more() -> None:
    measured = scenario(2)
    assert step_covers(measured, scenario(2))
    assert step_covers(measured, scenario(8, link_mbps=100))
    others = (
        scenario(1),
        scenario(4, dnn="resnet50"),
        scenario(4, batch_size=16),
        scenario(4, image_size=32),
        scenario(4, worker="emu.avx512.s15"),
        asynchronous(),
    )
    assert not any(step_covers(measured, other) for other in others)


def test_one_measured_step_corrects_all_forecasts_of_its_curve(warehouse: Warehouse) -> None:
    curves = torch_curves(workers=[2, 4])
    steps = curves[0].model_copy(update={"workers": (2,)}), 0.5
    answer = predict(warehouse, curves, "srift ideal_scaling", steps)
    of = {(forecast.system.name, forecast.scenario): forecast for forecast in answer.forecasts}
    assert len(of) == 2 * 4 + 2 * 2
    for name in ("srift", "ideal_scaling"):
        two, four = curves[0].scenarios("emulated")
        anchor, base, corrected = of[name, two], of[name, four], of[f"{name}_calibrated", four]
        assert anchor.value and base.value and corrected.value
        assert of[f"{name}_calibrated", two].value == pytest.approx(0.5)
        assert corrected.value == pytest.approx(base.value + 0.5 - anchor.value)
        assert corrected.corrected_by is not None
        assert corrected.corrected_by.startswith(f"{two.label}: 0.5 s measured, ")
        # Of the other type nobody measured a step.
        assert (f"{name}_calibrated", curves[1].scenarios("emulated")[0]) not in of
    base, corrected = of["srift", four], of["srift_calibrated", four]
    assert base.value and base.low and corrected.value and corrected.low and corrected.high
    # Intervals stay as wide, as part of the forecast.
    assert corrected.low / corrected.value == pytest.approx(base.low / base.value)
    assert answer.written == len(of)
    again = predict(warehouse, curves, "srift ideal_scaling", steps)
    assert again.written == 0
    fits = warehouse.query("fits", system="srift_calibrated")
    assert fits["parameters"].str.json_decode(pl.Struct({"fit_id": pl.String}))[0] == {
        "fit_id": base.fit.fit_id
    }


def test_a_measured_scenario_need_not_be_asked_about(warehouse: Warehouse) -> None:
    curve = async_curve(workers=[4])
    alone = async_curve(workers=[1])
    systems = systems_named(["linear"])
    plain = predict_curves(warehouse, [curve, alone], systems, dry_run=True)
    four, single = (forecast.value for forecast in plain.forecasts)
    assert four and single
    steps = alone, 2 / single
    answer = predict(warehouse, [curve], "linear", steps, dry_run=True)
    names = [forecast.system.name for forecast in answer.forecasts]
    assert names == ["linear", "linear_calibrated"]
    # Four workers do four times the steps of one; each now takes a step of one longer.
    assert answer.forecasts[1].value == pytest.approx(4 / (4 / four + 1 / single))
    assert answer.written == 0


def test_a_step_that_corrects_nothing_is_refused(warehouse: Warehouse) -> None:
    steps = async_curve(workers=[4]), 0.4
    with pytest.raises(BadInput, match=r"step of small_cnn .*W=4.* corrects no forecast"):
        predict(warehouse, [async_curve(workers=[2])], "linear", steps)
    assert warehouse.query("predictions").filter(pl.col("study").is_null()).is_empty()


def test_runs_that_corrected_before_are_seen_by_no_fit(warehouse: Warehouse) -> None:
    """Homes of earlier editions have some, of studies whose name begins with calibrate."""
    before = visible_runs(warehouse)
    scenario = torch_curves(workers=[1])[0].scenarios("emulated")[0]
    run = of_host("torch_throughput", "corrects", {}, scenario, before[0].host_id, "calibrate.1")
    sample = raw_table("sample", "metric unit window value", [("step_time_s", "s", None, 0.25)])
    land(warehouse.landing, run, scenario, {"sample": sample})
    assert warehouse.load().loaded == ("corrects",)
    assert visible_runs(warehouse) == before
