"""The board of a study: who stands on it, and on which scenarios they are compared."""

from typing import TYPE_CHECKING

import pytest

from tests.warehouse.conftest import at
from tests.warehouse.story import tell

if TYPE_CHECKING:
    from tests.warehouse.conftest import Built, Maker


def forecast(
    make: "Maker", study: str, system: str, values: dict[int, float], host_id: str = "host-1"
) -> None:
    """Record forecasts of a system, on a host, for scenarios by their numbers of workers."""
    fit = make.fit("p1", system=system)
    make.warehouse.record_fit(fit)
    make.warehouse.record_predictions(
        [
            make.prediction(fit, make.scenario(workers), value).model_copy(
                update={"study": study, "host_id": host_id}
            )
            for workers, value in values.items()
        ]
    )


@pytest.fixture
def judged(make: "Maker") -> "Maker":
    """Return a maker of two studies: both are about W = 2, one about W = 4 too; all take 1."""
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    forecast(make, "whole", "async_sgd", {2: 1.1, 4: 1.2})
    forecast(make, "whole", "lin", {2: 1.5, 4: 1.5})
    forecast(make, "part", "ernest", {2: 0.8})
    for study, workers in (("whole", 2), ("whole", 4), ("part", 2)):
        run_id = f"{study}-{workers}"
        make.measure(run_id, make.scenario(workers), [1.0], minute=9, study=study)
    make.warehouse.load()
    return make


def test_systems_of_other_studies_stand_on_a_board_that_they_cover(judged: "Maker") -> None:
    rows = judged.warehouse.query("board", study="part").select("system", "n", "mape").rows()
    assert rows == [
        ("async_sgd", 1, pytest.approx(10)),
        ("ernest", 1, pytest.approx(20)),
        ("lin", 1, pytest.approx(50)),
    ]


def test_what_was_judged_on_another_host_stands_on_no_board_of_this_one(judged: "Maker") -> None:
    forecast(judged, "abroad", "lin", {2: 4.0}, "host-2")
    judged.measure(
        "abroad-2", judged.scenario(2), [1.0], minute=9, study="abroad", host_id="host-2"
    )
    judged.warehouse.load()
    board = judged.warehouse.query("board")
    rows = dict(board.filter(study="part").select("system", "mape").rows())
    assert rows["lin"] == pytest.approx(50)
    assert board.filter(study="abroad")["system"].to_list() == ["lin"]


def test_one_that_forecast_a_part_does_not_narrow_what_others_are_compared_on(
    judged: "Maker",
) -> None:
    rows = judged.warehouse.query("board", study="whole").select("system", "n", "mape").rows()
    assert rows == [("async_sgd", 2, pytest.approx(15)), ("lin", 2, pytest.approx(50))]
    both = judged.warehouse.query("board")
    assert both["study"].to_list() == ["part"] * 3 + ["whole"] * 2


def test_a_study_that_has_a_system_takes_none_of_its_forecasts_elsewhere(judged: "Maker") -> None:
    forecast(judged, "part", "lin", {2: 2.0})
    judged.measure("again", judged.scenario(2), [1.0], minute=19, study="part")
    judged.warehouse.load()
    rows = dict(judged.warehouse.query("board", study="part").select("system", "mape").rows())
    assert rows["lin"] == pytest.approx(100)


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
