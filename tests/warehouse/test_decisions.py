"""Ratios of measured to forecast time, and decisions, judged by figures a reader can check."""

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.warehouse.conftest import at
from tests.warehouse.story import tell

if TYPE_CHECKING:
    from tests.warehouse.conftest import Built, Maker

SAMPLES = 36_000
"""At 1.3 and 2.5 steps of 8 images a second that is 0.96 and 0.5 hours."""


def decided(
    make: "Maker", chooser: str, choice: int | None, late: float | None = None, **limits: object
) -> pl.DataFrame:
    """Return a decision about one and two workers, which cost 1 and 2 US dollars an hour."""
    options = [make.scenario(workers).scenario_id for workers in (1, 2)]
    row = {
        "question_id": str(sorted(limits.items())),
        "study": "demo",
        "repeat": 1,
        "backend": "emulated",
        "host_id": "host-1",
        "framework": "tensorflow",
        "strategy": "async_parameter_server",
        "dnn": "cnn",
        "image_size": 64,
        "batch_size": 8,
        "link_mbps": 150.0,
        "samples": SAMPLES,
        "minimize": "cost",
        "max_hours": None,
        "budget_usd": None,
        "seed": 1,
        "options": options,
        "usd_per_hour": [1.0, 2.0],
        "chooser": chooser,
        "late": late,
        "choice": None if choice is None else make.scenario(choice).scenario_id,
        "code_version": "v1",
        "made_at": at(20),
    }
    return pl.DataFrame([row | limits])


def decide(make: "Maker", *rows: pl.DataFrame) -> None:
    """Keep decisions."""
    make.warehouse.record_decisions(pl.concat(rows, how="vertical_relaxed"))


@pytest.fixture
def told(built: "Built", fresh: "Maker") -> "Maker":
    """Return a maker whose warehouse has a judged forecast of two workers."""
    return built(tell, fresh.home)


def test_a_ratio_is_of_times(told: "Maker") -> None:
    """3.0 steps a second were forecast and 2.5 measured: training takes 1.2 times as long."""
    (row,) = told.warehouse.query("time_ratios").to_dicts()
    assert (row["system"], row["split"]) == ("async_sgd", "held_out_world_size")
    assert row["ratio"] == pytest.approx(1.2)
    assert row["hours_apart"] == pytest.approx(0.1)
    assert told.warehouse.query("time_ratios", known_by=at(5.9).isoformat()).is_empty()
    assert told.warehouse.query("time_ratios", backend="loopback").is_empty()


def test_a_later_round_is_forecast_by_earlier_profiles_too(told: "Maker") -> None:
    told.measure("m4", told.scenario(2), [2.0, 2.0], minute=60 * 24, repeat=2)
    told.warehouse.load()
    rows = told.warehouse.query("time_ratios").sort("hours_apart")
    assert rows["ratio"].to_list() == pytest.approx([1.2, 1.5])
    assert rows["hours_apart"].to_list() == pytest.approx([0.1, 24])
    assert rows["repeat"].to_list() == [1, 1]


@pytest.mark.parametrize(("idle", "stolen"), [(0.1, 0.0), (0.9, 0.03)])
def test_a_busy_host_tells_no_ratio(told: "Maker", idle: float, stolen: float) -> None:
    told.measure("m4", told.scenario(2), [2.0, 2.0], minute=60, idle=0.9)
    told.measure("busy", told.scenario(2), [0.5], minute=70, idle=idle, stolen=stolen)
    told.warehouse.load()
    ratios = told.warehouse.query("time_ratios")["ratio"]
    assert sorted(ratios) == pytest.approx([1.2, 1.5])


def test_a_run_that_was_loaded_before_a_forecast_judges_nothing(told: "Maker") -> None:
    fit = told.fit("p1")
    told.warehouse.record_predictions([told.prediction(fit, told.scenario(1), 1.0)])
    assert told.warehouse.query("time_ratios").height == 1


def test_decisions_are_judged_by_hand(told: "Maker") -> None:
    """Two workers cost 4 % more than one, and alone keep a deadline of 0.9 hours."""
    decide(
        told,
        decided(told, "loose", 2, max_hours=1.0),
        decided(told, "tight", 2, max_hours=0.9),
        decided(told, "late", 1, max_hours=0.9),
        decided(told, "shy", None, max_hours=0.9),
        decided(told, "dear", 2, budget_usd=0.97, minimize="time"),
    )
    rows = {row["chooser"]: row for row in told.warehouse.query("decisions").to_dicts()}
    regrets = {name: row["mean_regret_percent"] for name, row in rows.items()}
    assert regrets["loose"] == pytest.approx(100 * (2 * 1.3 / 2.5 - 1))
    assert regrets["tight"] == pytest.approx(0)
    assert (regrets["late"], regrets["shy"], regrets["dear"]) == (None, None, None)
    assert {name for name, row in rows.items() if row["missed"]} == {"late"}
    assert {name for name, row in rows.items() if row["declined"]} == {"shy"}
    assert {name for name, row in rows.items() if row["blown"]} == {"dear"}
    assert {name for name, row in rows.items() if row["best"]} == {"tight"}


def test_deciding_again_takes_the_place_of_the_same_question(told: "Maker") -> None:
    decide(told, decided(told, "one", 1, max_hours=1.0), decided(told, "two", 2, max_hours=1.0))
    decide(told, decided(told, "one", 2, max_hours=1.0))
    decide(told, decided(told, "one", 1, max_hours=2.0))
    board = told.warehouse.query("decisions")
    assert (board["chooser"].to_list(), board["questions"].to_list()) == (["one"], [2])
    assert told.warehouse.query("decisions", study="other").is_empty()
