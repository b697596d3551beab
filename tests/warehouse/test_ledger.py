from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from tests.warehouse.conftest import at
from warehouse import ledger
from warehouse.connection import connect
from warehouse.ledger import prediction_id, price_snapshot
from warehouse.records import BadInput, Price, Recommendation
from warehouse.warehouse import read_only

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker


def test_a_fit_is_written_once_and_published(fitted: "Maker") -> None:
    fit = fitted.fit("p1")
    fitted.warehouse.record_fit(fit.model_copy(update={"created_at": fit.created_at.max}))
    (row,) = read_only(fitted.home, "SELECT * FROM fit.fit").to_dicts()
    assert row["fit_id"] == fit.fit_id
    assert row["run_ids"] == ["p1"]
    assert row["parameters"] == '{"client_gap_s": 0.015}'
    assert row["created_at"] == fit.created_at


def test_a_fit_of_runs_it_may_not_see_is_refused(fitted: "Maker") -> None:
    fitted.measure("m1", fitted.scenario(2), [2.0], minute=5)
    fitted.warehouse.load()
    with pytest.raises(BadInput, match="not loaded ok profiles: m1"):
        fitted.warehouse.record_fit(fitted.fit("p1", "m1"))


def test_predictions_are_written_once(fitted: "Maker") -> None:
    fit = fitted.fit("p1")
    two, three = (
        fitted.prediction(fit, fitted.scenario(workers), workers, low=1) for workers in (2, 3)
    )
    assert fitted.warehouse.record_predictions([two]) == 1
    later = two.model_copy(update={"made_at": two.made_at.replace(hour=5)})
    assert fitted.warehouse.record_predictions([later, three, three]) == 1
    assert fitted.warehouse.record_predictions([]) == 0
    rows = fitted.warehouse.predictions("demo", 1)
    assert set(rows["prediction_id"]) == {prediction_id(two), prediction_id(three)}
    assert rows["made_at"].to_list() == [two.made_at] * 2
    assert fitted.warehouse.predictions("demo", 2).is_empty()
    assert read_only(fitted.home, "SELECT * FROM pred.ledger").height == 2


@pytest.mark.parametrize("change", [{"value": 2.5}, {"low": 1.0}, {"unit": "1/h"}])
def test_the_ledger_is_never_updated(fitted: "Maker", change: dict[str, float | str]) -> None:
    fit = fitted.fit("p1")
    first = fitted.prediction(fit, fitted.scenario(2), 2.0)
    other = fitted.prediction(fit, fitted.scenario(3), 3.0)
    fitted.warehouse.record_predictions([first])
    with pytest.raises(BadInput, match="the ledger is never updated: async_sgd has forecast"):
        fitted.warehouse.record_predictions([other, first.model_copy(update=change)])
    assert fitted.warehouse.predictions("demo", 1)["value"].to_list() == [2.0]
    assert fitted.warehouse.record_predictions([other]) == 1


def test_two_figures_in_one_batch_are_refused(fitted: "Maker") -> None:
    fit = fitted.fit("p1")
    both = [fitted.prediction(fit, fitted.scenario(2), value) for value in (2.0, 2.1)]
    with pytest.raises(BadInput, match="never updated"):
        fitted.warehouse.record_predictions(both)
    assert fitted.warehouse.predictions("demo", 1).is_empty()


def test_predictions_need_a_recorded_fit(fitted: "Maker") -> None:
    fit = fitted.fit("p1", system="lin")
    with pytest.raises(BadInput, match=f"fit {fit.fit_id}, which is not recorded"):
        fitted.warehouse.record_predictions([fitted.prediction(fit, fitted.scenario(2), 2)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_figures_that_cannot_be_judged_cannot_be_written_down(
    fitted: "Maker", value: float
) -> None:
    fit = fitted.fit("p1")
    with pytest.raises(ValidationError, match="finite number"):
        fitted.prediction(fit, fitted.scenario(2), value)


def test_an_interval_upside_down_is_refused(fitted: "Maker") -> None:
    fit = fitted.fit("p1")
    wrong = fitted.prediction(fit, fitted.scenario(2), 2.0, low=3.0, high=1.0)
    with pytest.raises(BadInput, match=r"refused by pred.ledger: .*CHECK"):
        fitted.warehouse.record_predictions([wrong])


def test_a_time_without_a_zone_is_refused(fitted: "Maker") -> None:
    fit = fitted.fit("p1")
    naive = fitted.prediction(fit, fitted.scenario(2), 2.0)
    naive = naive.model_copy(update={"made_at": naive.made_at.replace(tzinfo=None)})
    with pytest.raises(BadInput, match="no time zone"):
        fitted.warehouse.record_predictions([naive])


CHEAP = Price(
    provider="aws",
    node_type="g4dn.8xlarge",
    region="us-west-2",
    market="spot",
    usd_per_hour=0.72,
    observed_at=at(0),
    source="test",
)
FAST = CHEAP.model_copy(update={"node_type": "p3.8xlarge", "usd_per_hour": 3.68})


def recommendation(make: "Maker", snapshot: str | None) -> Recommendation:
    return Recommendation(
        system="async_sgd",
        backend="emulated",
        job={"dnn": "cnn", "examples": 1_000_000},
        objective="cost",
        constraints={"budget_usd": 3},
        choice={"node_type": "g4dn.8xlarge", "count": 8, "cost_usd": 2.72},
        alternatives=({"node_type": "p3.8xlarge", "count": 2, "cost_usd": 3.88},),
        price_snapshot=snapshot,
        fit_ids=(make.fit("p1").fit_id,),
        code_version="v1",
        made_at=at(3),
    )


def test_a_price_snapshot_is_named_by_its_content(fitted: "Maker") -> None:
    first = fitted.warehouse.record_prices([CHEAP, FAST, CHEAP])
    assert first == fitted.warehouse.record_prices([FAST, CHEAP]) == price_snapshot([CHEAP, FAST])
    second = fitted.warehouse.record_prices([CHEAP])
    assert second != first
    rows = fitted.rows("FROM pred.price_snapshot ORDER BY price_snapshot, node_type")
    assert sorted(rows["price_snapshot"]) == sorted([first, first, second])
    with pytest.raises(BadInput, match="needs a price; found none"):
        fitted.warehouse.record_prices([])


def test_a_cost_is_forecast_once_per_price_snapshot(fitted: "Maker") -> None:
    cheap, fast = (fitted.warehouse.record_prices([price]) for price in (CHEAP, FAST))
    prediction = fitted.prediction(fitted.fit("p1"), fitted.scenario(2), 2.0)
    two = [prediction.model_copy(update={"price_snapshot": key}) for key in (cheap, fast)]
    assert fitted.warehouse.record_predictions(two) == 2
    unknown = prediction.model_copy(update={"price_snapshot": "x"})
    with pytest.raises(BadInput, match="names price snapshot x, which is not recorded"):
        fitted.warehouse.record_predictions([unknown])
    again = two[0].model_copy(update={"value": 3.0})
    with pytest.raises(BadInput, match="never updated"):
        fitted.warehouse.record_predictions([again])


def test_the_same_forecast_by_newer_code_is_the_same_one(fitted: "Maker") -> None:
    prediction = fitted.prediction(fitted.fit("p1"), fitted.scenario(2), 2.0)
    newer = prediction.model_copy(update={"code_version": "v2"})
    assert fitted.warehouse.record_predictions([prediction, newer]) == 1
    assert fitted.rows("SELECT code_version FROM pred.ledger").item() == "v1"
    fitted.warehouse.record_fit(fitted.fit("p1").model_copy(update={"code_version": "v2"}))
    assert fitted.rows("SELECT code_version FROM fit.fit").item() == "v1"


def test_a_recommendation_is_written_once_with_all_it_rests_on(fitted: "Maker") -> None:
    given = recommendation(fitted, fitted.warehouse.record_prices([CHEAP, FAST]))
    key = fitted.warehouse.record_recommendation(given)
    later = given.model_copy(update={"made_at": at(9)})
    assert fitted.warehouse.record_recommendation(later) == key
    (row,) = fitted.rows("FROM pred.recommendation").to_dicts()
    assert row["recommendation_id"] == key
    assert row["choice"] == '{"cost_usd": 2.72, "count": 8, "node_type": "g4dn.8xlarge"}'
    assert row["fit_ids"] == [fitted.fit("p1").fit_id]
    assert (row["made_at"], row["sequence"]) == (at(3), 3)


def test_a_recommendation_on_unknown_fits_is_refused(fitted: "Maker") -> None:
    given = recommendation(fitted, None).model_copy(update={"fit_ids": ("x",)})
    with pytest.raises(BadInput, match="names fit x, which is not recorded"):
        fitted.warehouse.record_recommendation(given)


@pytest.mark.parametrize(
    ("tampering", "reason"),
    [
        ("UPDATE pred.recommendation SET choice = '{}'", "was changed"),
        ("UPDATE pred.price_snapshot SET usd_per_hour = 0.01", "rests on prices that were changed"),
        ("DELETE FROM pred.price_snapshot", "rests on prices that were changed"),
    ],
)
def test_tampering_with_a_recommendation_or_its_prices_is_found(
    fitted: "Maker", tampering: str, reason: str
) -> None:
    given = recommendation(fitted, fitted.warehouse.record_prices([CHEAP, FAST]))
    key = fitted.warehouse.record_recommendation(given)
    with connect(fitted.home / "warehouse.duckdb") as connection:
        assert ledger.verify(connection) is None
        connection.execute(tampering)
        broken = ledger.verify(connection)
    assert broken is not None
    assert broken.startswith(f"row 3 of the ledger (pred.recommendation {key}) {reason}")
