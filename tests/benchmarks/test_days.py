"""Errors with and without a measured step, on forecasts that are known."""

from datetime import UTC, datetime

import pytest

from benchmarks.days import pairs, summary
from forecasting.asked.answer import Forecast
from forecasting.asked.fits import AskedFit
from forecasting.asked.near import Case
from forecasting.chosen import named
from profilers.probe import STEP_TIME
from tests.forecasting.test_near import scenario
from warehouse.records import Scenario

(SRIFT,) = named(["srift"])


def forecast(of: Scenario, value: float) -> Forecast:
    """Return what srift says, give or take a tenth."""
    return Forecast(
        scenario=of,
        system=SRIFT,
        metric=STEP_TIME,
        value=value,
        low=0.9 * value,
        high=1.1 * value,
        unknown=None,
        fit=AskedFit("fit", lambda: pytest.fail("not fitted"), datetime.now(UTC), ()),
        split="held_out_world_size",
        past=None,
        case=Case((), None),
        is_new=True,
    )


def test_a_day_on_which_passes_take_longer() -> None:
    """Each step takes 0.1 s longer than forecast: shifting mends all of it, a ratio too much."""
    forecasts = [forecast(scenario(1), 0.2), forecast(scenario(8), 0.4)]
    measured = {one.scenario: (one.value or 0) + 0.1 for one in forecasts}
    (found,) = pairs(forecasts, measured)
    assert (found.system, found.nodes) == ("srift", 1)
    assert found.error == pytest.approx(100 * (0.4 / 0.5 - 1))
    assert found.corrected == pytest.approx(0)
    assert found.by_ratio == pytest.approx(100 * (0.6 / 0.5 - 1))
    assert (found.inside, found.corrected_inside) == (False, True)
    any_node, one_node = summary([found]).to_dicts()
    assert (any_node["n"], any_node["without"], any_node["corrected"]) == (
        1,
        pytest.approx(20),
        pytest.approx(0),
    )
    assert (one_node["measured"], one_node["inside"], one_node["corrected_inside"]) == (
        "one node",
        0.0,
        1.0,
    )


def test_what_was_not_measured_on_the_day_judges_nothing() -> None:
    forecasts = [forecast(scenario(1), 0.2), forecast(scenario(8), 0.4)]
    assert list(pairs(forecasts, {scenario(8): 0.5})) == []
    other = [forecasts[0], forecast(scenario(8, batch_size=16), 0.4)]
    assert list(pairs(other, {one.scenario: 1.0 for one in other})) == []
