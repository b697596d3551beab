"""Prices and recommendations in the ledger."""

from typing import TYPE_CHECKING

import pytest

from tests.warehouse.conftest import at
from warehouse import ledger
from warehouse.connection import connect
from warehouse.ledger import price_snapshot
from warehouse.records import BadInput, Price, Recommendation

if TYPE_CHECKING:
    from tests.warehouse.conftest import Built, Maker

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


def fill_fitted(make: "Maker") -> None:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    make.warehouse.record_fit(make.fit("p1"))


@pytest.fixture
def fitted(built: "Built", fresh: "Maker") -> "Maker":
    """Return a maker whose warehouse holds the profile `p1` and its fit."""
    return built(fill_fitted, fresh.home)


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
    one = fitted.prediction(fitted.fit("p1"), fitted.scenario(2), 2.0)
    two = [one.model_copy(update={"price_snapshot": key}) for key in (cheap, fast)]
    assert fitted.warehouse.record_predictions(two) == 2
    unknown = one.model_copy(update={"price_snapshot": "x"})
    with pytest.raises(BadInput, match="names price snapshot x, which is not recorded"):
        fitted.warehouse.record_predictions([unknown])
    again = two[0].model_copy(update={"value": 3.0})
    with pytest.raises(BadInput, match="never updated"):
        fitted.warehouse.record_predictions([again])


def test_the_same_forecast_by_newer_code_is_the_same_one(fitted: "Maker") -> None:
    one = fitted.prediction(fitted.fit("p1"), fitted.scenario(2), 2.0)
    newer = one.model_copy(update={"code_version": "v2"})
    assert fitted.warehouse.record_predictions([one, newer]) == 1
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


def test_no_choice_is_an_answer(fitted: "Maker") -> None:
    given = recommendation(fitted, None).model_copy(update={"choice": None})
    fitted.warehouse.record_recommendation(given)
    assert fitted.rows("SELECT choice FROM pred.recommendation").item() is None


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
        found = ledger.verify(connection)
    assert found is not None
    assert (found.sequence, found.table, found.key) == (3, "pred.recommendation", key)
    assert reason in found.reason
