from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from warehouse.ledger import prediction_id
from warehouse.records import BadInput
from warehouse.warehouse import read_only

if TYPE_CHECKING:
    from tests.warehouse.conftest import Built, Maker


def fill_profiled(make: "Maker") -> None:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()


@pytest.fixture
def profiled(built: "Built", fresh: "Maker") -> "Maker":
    """Return a maker whose warehouse holds the profile `p1` of one worker."""
    return built(fill_profiled, fresh.home)


def test_a_fit_is_written_once_and_published(profiled: "Maker") -> None:
    fit = profiled.fit("p1")
    profiled.warehouse.record_fit(fit)
    profiled.warehouse.record_fit(fit.model_copy(update={"created_at": fit.created_at.max}))
    (row,) = read_only(profiled.home, "SELECT * FROM fit.fit").to_dicts()
    assert row["fit_id"] == fit.fit_id
    assert row["run_ids"] == ["p1"]
    assert row["parameters"] == '{"client_gap_s": 0.015}'
    assert row["created_at"] == fit.created_at


def test_a_fit_of_runs_it_may_not_see_is_refused(profiled: "Maker") -> None:
    profiled.measure("m1", profiled.scenario(2), [2.0], minute=5)
    profiled.warehouse.load()
    with pytest.raises(BadInput, match="not loaded ok profiles: m1"):
        profiled.warehouse.record_fit(profiled.fit("p1", "m1"))


def test_predictions_are_written_once(profiled: "Maker") -> None:
    fit = profiled.fit("p1")
    profiled.warehouse.record_fit(fit)
    two, three = (
        profiled.prediction(fit, profiled.scenario(workers), workers, low=1) for workers in (2, 3)
    )
    assert profiled.warehouse.record_predictions([two]) == 1
    later = two.model_copy(update={"made_at": two.made_at.replace(hour=5)})
    assert profiled.warehouse.record_predictions([later, three, three]) == 1
    assert profiled.warehouse.record_predictions([]) == 0
    rows = profiled.warehouse.predictions("demo", 1)
    assert set(rows["prediction_id"]) == {prediction_id(two), prediction_id(three)}
    assert rows["made_at"].to_list() == [two.made_at] * 2
    assert profiled.warehouse.predictions("demo", 2).is_empty()
    assert read_only(profiled.home, "SELECT * FROM pred.ledger").height == 2


@pytest.mark.parametrize("change", [{"value": 2.5}, {"low": 1.0}, {"unit": "1/h"}])
def test_the_ledger_is_never_updated(profiled: "Maker", change: dict[str, float | str]) -> None:
    fit = profiled.fit("p1")
    profiled.warehouse.record_fit(fit)
    first = profiled.prediction(fit, profiled.scenario(2), 2.0)
    other = profiled.prediction(fit, profiled.scenario(3), 3.0)
    profiled.warehouse.record_predictions([first])
    with pytest.raises(BadInput, match="the ledger is never updated: async_sgd has forecast"):
        profiled.warehouse.record_predictions([other, first.model_copy(update=change)])
    assert profiled.warehouse.predictions("demo", 1)["value"].to_list() == [2.0]
    assert profiled.warehouse.record_predictions([other]) == 1


def test_two_figures_in_one_batch_are_refused(profiled: "Maker") -> None:
    fit = profiled.fit("p1")
    profiled.warehouse.record_fit(fit)
    both = [profiled.prediction(fit, profiled.scenario(2), value) for value in (2.0, 2.1)]
    with pytest.raises(BadInput, match="never updated"):
        profiled.warehouse.record_predictions(both)
    assert profiled.warehouse.predictions("demo", 1).is_empty()


def test_predictions_need_a_recorded_fit(profiled: "Maker") -> None:
    fit = profiled.fit("p1")
    with pytest.raises(BadInput, match=f"fit {fit.fit_id}, which is not recorded"):
        profiled.warehouse.record_predictions([profiled.prediction(fit, profiled.scenario(2), 2)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_figures_that_cannot_be_judged_cannot_be_written_down(
    profiled: "Maker", value: float
) -> None:
    fit = profiled.fit("p1")
    with pytest.raises(ValidationError, match="finite number"):
        profiled.prediction(fit, profiled.scenario(2), value)


def test_an_interval_upside_down_is_refused(profiled: "Maker") -> None:
    fit = profiled.fit("p1")
    profiled.warehouse.record_fit(fit)
    wrong = profiled.prediction(fit, profiled.scenario(2), 2.0, low=3.0, high=1.0)
    with pytest.raises(BadInput, match=r"refused by pred.ledger: .*CHECK"):
        profiled.warehouse.record_predictions([wrong])


def test_a_time_without_a_zone_is_refused(profiled: "Maker") -> None:
    fit = profiled.fit("p1")
    profiled.warehouse.record_fit(fit)
    naive = profiled.prediction(fit, profiled.scenario(2), 2.0)
    naive = naive.model_copy(update={"made_at": naive.made_at.replace(tzinfo=None)})
    with pytest.raises(BadInput, match="no time zone"):
        profiled.warehouse.record_predictions([naive])
