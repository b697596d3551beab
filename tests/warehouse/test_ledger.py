from collections.abc import Sequence
from datetime import datetime

import pytest
from pydantic import ValidationError

from tests.made_run import made_price
from tests.warehouse.conftest import Maker, at
from warehouse import ledger
from warehouse.connection import connect
from warehouse.ledger import content_id, price_snapshot
from warehouse.records import BadInput, Price
from warehouse.sql import read_only


def test_a_fit_is_written_once_and_published(fitted: Maker) -> None:
    fit = fitted.fit("p1")
    fitted.warehouse.record(fits=[fit.model_copy(update={"created_at": fit.created_at.max})])
    (row,) = read_only(fitted.home, "SELECT * FROM fit.fit").to_dicts()
    assert row["fit_id"] == fit.fit_id
    assert row["run_ids"] == ["p1"]
    assert row["parameters"] == '{"client_gap_s": 0.015}'
    assert row["created_at"] == fit.created_at


def test_a_fit_of_runs_it_may_not_see_is_refused(fitted: Maker) -> None:
    fitted.measure("m1", fitted.scenario(2), [2.0], minute=5)
    fitted.warehouse.load()
    with pytest.raises(BadInput, match="not loaded ok profiles: m1"):
        fitted.warehouse.record(fits=[fitted.fit("p1", "m1")])


def test_predictions_are_written_once(fitted: Maker) -> None:
    fit = fitted.fit("p1")
    two, three = (
        fitted.prediction(fit, fitted.scenario(workers), workers, low=1) for workers in (2, 3)
    )
    assert fitted.warehouse.record([two]) == 1
    later = two.model_copy(update={"made_at": two.made_at.replace(hour=5)})
    assert fitted.warehouse.record([later, three, three]) == 1
    assert fitted.warehouse.record([]) == 0
    rows = fitted.warehouse.query("predictions", study="demo", repeat=1)
    assert set(rows["prediction_id"]) == {content_id(two), content_id(three)}
    assert rows["made_at"].to_list() == [two.made_at] * 2
    assert fitted.warehouse.query("predictions", study="demo", repeat=2).is_empty()
    assert read_only(fitted.home, "SELECT * FROM pred.ledger").height == 2


@pytest.mark.parametrize("change", [{"value": 2.5}, {"low": 1.0}, {"unit": "1/h"}])
def test_the_ledger_is_never_updated(fitted: Maker, change: dict[str, float | str]) -> None:
    fit = fitted.fit("p1")
    first, other = (fitted.prediction(fit, fitted.scenario(workers), workers) for workers in (2, 3))
    changed = first.model_copy(update=change)
    for known, batch in (([], [first, changed]), ([first], [other, changed])):
        fitted.warehouse.record(known)
        with pytest.raises(BadInput, match="the ledger is never updated: async_sgd has forecast"):
            fitted.warehouse.record(batch)
        assert fitted.warehouse.query("predictions", study="demo", repeat=1)["value"].to_list() == [
            2.0
        ] * len(known)
    assert fitted.warehouse.record([other]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fit_id": "x"}, "names fit x, which is not recorded"),
        ({"price_snapshot": "x"}, "names price snapshot x, which is not recorded"),
        ({"low": 3.0, "high": 1.0}, r"refused by pred.ledger: .*CHECK"),
        ({"made_at": datetime(2030, 1, 1)}, "no time zone"),
    ],
)
def test_what_cannot_be_judged_later_is_refused(
    fitted: Maker, change: dict[str, object], message: str
) -> None:
    prediction = fitted.prediction(fitted.fit("p1"), fitted.scenario(2), 2.0)
    with pytest.raises(BadInput, match=message):
        fitted.warehouse.record([prediction.model_copy(update=change)])
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValidationError, match="finite number"):
            fitted.prediction(fitted.fit("p1"), fitted.scenario(2), value)


CHEAP, FAST = made_price("g4dn.8xlarge", 0.72), made_price("p3.8xlarge", 3.68)


def recorded(fitted: Maker, prices: Sequence[Price]) -> str:
    """Write a set of prices, and return its name."""
    fitted.warehouse.record(prices=[prices])
    return price_snapshot(prices)


def test_a_price_snapshot_is_named_by_its_content(fitted: Maker) -> None:
    first = recorded(fitted, [CHEAP, FAST, CHEAP])
    assert first == recorded(fitted, [FAST, CHEAP]) == price_snapshot([CHEAP, FAST])
    second = recorded(fitted, [CHEAP])
    assert second != first
    rows = fitted.rows("FROM pred.price_snapshot ORDER BY price_snapshot, node_type")
    assert sorted(rows["price_snapshot"]) == sorted([first, first, second])
    with pytest.raises(BadInput, match="needs a price; found none"):
        recorded(fitted, [])


def test_a_cost_is_forecast_once_per_price_snapshot(fitted: Maker) -> None:
    cheap, fast = (recorded(fitted, [price]) for price in (CHEAP, FAST))
    prediction = fitted.prediction(fitted.fit("p1"), fitted.scenario(2), 2.0)
    two = [prediction.model_copy(update={"price_snapshot": key}) for key in (cheap, fast)]
    assert fitted.warehouse.record(two) == 2
    again = two[0].model_copy(update={"value": 3.0})
    with pytest.raises(BadInput, match="never updated"):
        fitted.warehouse.record([again])


def test_the_same_forecast_by_newer_code_is_the_same_one(fitted: Maker) -> None:
    prediction = fitted.prediction(fitted.fit("p1"), fitted.scenario(2), 2.0)
    newer = prediction.model_copy(update={"code_version": "v2"})
    assert fitted.warehouse.record([prediction, newer]) == 1
    assert fitted.rows("SELECT code_version FROM pred.ledger").item() == "v1"
    fitted.warehouse.record(fits=[fitted.fit("p1").model_copy(update={"code_version": "v2"})])
    assert fitted.rows("SELECT code_version FROM fit.fit").item() == "v1"


def test_a_recommendation_is_written_once_with_all_it_rests_on(fitted: Maker) -> None:
    given = fitted.recommendation(recorded(fitted, [CHEAP, FAST]))
    key = fitted.warehouse.record_recommendation(given)
    later = given.model_copy(update={"made_at": at(9)})
    assert fitted.warehouse.record_recommendation(later) == key
    (row,) = fitted.rows("FROM pred.recommendation").to_dicts()
    assert row["recommendation_id"] == key
    assert row["choice"] == '{"cost_usd": 2.72, "count": 2, "node_type": "emu.avx2.1c"}'
    assert row["fit_ids"] == [fitted.fit("p1").fit_id]
    assert (row["made_at"], row["sequence"]) == (at(3), 3)


def test_a_recommendation_on_unknown_fits_is_refused(fitted: Maker) -> None:
    given = fitted.recommendation(None, fit_ids=("x",))
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
    fitted: Maker, tampering: str, reason: str
) -> None:
    given = fitted.recommendation(recorded(fitted, [CHEAP, FAST]))
    key = fitted.warehouse.record_recommendation(given)
    with connect(fitted.main) as connection:
        assert ledger.verify(connection) is None
        connection.execute(tampering)
        broken = ledger.verify(connection)
    assert broken is not None
    assert broken.startswith(f"row 3 of the ledger (pred.recommendation {key}) {reason}")
