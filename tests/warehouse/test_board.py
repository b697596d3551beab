"""The board of a study: who stands on it, and on which scenarios they are compared."""

import pytest

from tests.warehouse.conftest import Built, Maker, at
from tests.warehouse.story import tell


@pytest.fixture
def judged(fitted: Maker) -> Maker:
    """Return a maker of two studies: both are about W = 2, one about W = 4 too; all take 1."""
    fitted.forecast({2: 1.1, 4: 1.2}, study="whole")
    fitted.forecast({2: 1.5, 4: 1.5}, study="whole", system="lin")
    fitted.forecast({2: 0.8}, study="part", system="ernest")
    for study, workers in (("whole", 2), ("whole", 4), ("part", 2)):
        run_id = f"{study}-{workers}"
        fitted.measure(run_id, fitted.scenario(workers), [1.0], minute=9, study=study)
    fitted.warehouse.load()
    return fitted


def test_systems_of_other_studies_stand_on_a_board_that_they_cover(judged: Maker) -> None:
    rows = judged.warehouse.query("board", study="part").select("system", "n", "mape").rows()
    assert rows == [
        ("async_sgd", 1, pytest.approx(10)),
        ("ernest", 1, pytest.approx(20)),
        ("lin", 1, pytest.approx(50)),
    ]


def test_what_was_judged_on_another_host_stands_on_no_board_of_this_one(judged: Maker) -> None:
    scenario, abroad = judged.scenario(2), "host-2"
    judged.forecast({2: 4.0}, system="lin", study="abroad", host_id=abroad)
    judged.measure("abroad-2", scenario, [1.0], minute=9, study="abroad", host_id=abroad)
    judged.warehouse.load()
    board = judged.warehouse.query("board")
    rows = dict(board.filter(study="part").select("system", "mape").rows())
    assert rows["lin"] == pytest.approx(50)
    assert board.filter(study="abroad")["system"].to_list() == ["lin"]


def test_one_that_forecast_a_part_does_not_narrow_what_others_are_compared_on(
    judged: Maker,
) -> None:
    rows = judged.warehouse.query("board", study="whole").select("system", "n", "mape").rows()
    assert rows == [("async_sgd", 2, pytest.approx(15)), ("lin", 2, pytest.approx(50))]
    both = judged.warehouse.query("board")
    assert both["study"].to_list() == ["part"] * 3 + ["whole"] * 2


def test_a_study_that_has_a_system_takes_none_of_its_forecasts_elsewhere(judged: Maker) -> None:
    judged.forecast({2: 2.0}, study="part", system="lin")
    judged.measure("again", judged.scenario(2), [1.0], minute=19, study="part")
    judged.warehouse.load()
    rows = dict(judged.warehouse.query("board", study="part").select("system", "mape").rows())
    assert rows["lin"] == pytest.approx(100)


@pytest.fixture
def told(built: Built, fresh: Maker) -> Maker:
    """Return a maker whose warehouse has a judged forecast of two workers."""
    return built(tell, fresh.home)


def test_a_ratio_is_of_times(told: Maker) -> None:
    """3.0 steps a second were forecast and 2.5 measured: training takes 1.2 times as long."""
    (row,) = told.warehouse.query("time_ratios").to_dicts()
    assert (row["system"], row["split"]) == ("async_sgd", "held_out_world_size")
    assert row["ratio"] == pytest.approx(1.2)
    assert row["hours_apart"] == pytest.approx(0.1)
    assert told.warehouse.query("time_ratios", known_by=at(5.9).isoformat()).is_empty()
    assert told.warehouse.query("time_ratios", backend="loopback").is_empty()


def test_a_later_round_is_forecast_by_earlier_profiles_too(told: Maker) -> None:
    told.measure("m4", told.scenario(2), [2.0, 2.0], minute=60 * 24, repeat=2)
    told.warehouse.load()
    rows = told.warehouse.query("time_ratios").sort("hours_apart")
    assert rows["ratio"].to_list() == pytest.approx([1.2, 1.5])
    assert rows["hours_apart"].to_list() == pytest.approx([0.1, 24])
    assert rows["repeat"].to_list() == [1, 1]


@pytest.mark.parametrize(("idle", "stolen"), [(0.1, 0.0), (0.9, 0.03)])
def test_a_busy_host_tells_no_ratio(told: Maker, idle: float, stolen: float) -> None:
    told.measure("m4", told.scenario(2), [2.0, 2.0], minute=60, idle=0.9)
    told.measure("busy", told.scenario(2), [0.5], minute=70, idle=idle, stolen=stolen)
    told.warehouse.load()
    ratios = told.warehouse.query("time_ratios")["ratio"]
    assert sorted(ratios) == pytest.approx([1.2, 1.5])


def test_a_run_that_was_loaded_before_a_forecast_judges_nothing(told: Maker) -> None:
    told.forecast({1: 1.0})
    assert told.warehouse.query("time_ratios").height == 1
