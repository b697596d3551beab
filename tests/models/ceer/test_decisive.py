import polars as pl
import pytest

from models.ceer.decisive import decisive_operations
from models.ceer.offers import market_prices, price_epochs
from models.ceer.recommendation import Objective, epochs, recommend
from models.choice.limits import cheapest
from tests.models.ceer.frames import MB, network, operation
from tests.models.ceer.test_predictor import model

NEW = network(operation("", "Conv2D", 0), operation("", "Relu", 0), parameters=10**6)


def test_the_operations_that_decide_add_up_to_the_difference() -> None:
    fitted = model()
    candidates = price_epochs(
        epochs(fitted.predict(NEW, devices=[1]), 8000), market_prices({"slow": 1.0, "fast": 3.0}, 1)
    )
    found = recommend(candidates, Objective("cheapest", cheapest))
    first, second = found.ranking
    # On the fast type 0.2 + 0.01 ms of operations and 2 ms besides, at three times the price.
    assert first.node_type == "slow"
    rows = decisive_operations(fitted, NEW, first, second, samples=8000)
    by_type = {row["type"]: row for row in rows.iter_rows(named=True)}
    assert rows["type"].to_list() == ["S", "Conv2D", "Relu"]
    assert by_type["Conv2D"]["choice_s"] == pytest.approx(1000 * 0.001)
    assert by_type["Conv2D"]["other_s"] == pytest.approx(1000 * 0.0002)
    assert by_type["Conv2D"]["difference_usd"] == pytest.approx((1.0 - 3 * 0.2) / 3600)
    assert by_type["S"]["difference_s"] == pytest.approx(0, abs=1e-9)
    assert first.time_s is not None and second.time_s is not None
    assert rows["difference_s"].sum() == pytest.approx(first.time_s - second.time_s)
    assert first.cost_usd is not None and second.cost_usd is not None
    assert rows["difference_usd"].sum() == pytest.approx(first.cost_usd - second.cost_usd)
    by_time = decisive_operations(fitted, NEW, first, second, samples=8000, by="time")
    assert by_time["type"].to_list() == ["Conv2D", "Relu", "S"]


def test_what_nobody_measured_has_no_time() -> None:
    fitted = model()
    new = network(operation("", "Einsum", 0, inputs=((9 * MB,),)))
    candidates = price_epochs(
        epochs(fitted.predict(new)), market_prices({"slow": 1.0, "fast": 3.0}, 2)
    )
    found = recommend(candidates, Objective("cheapest", cheapest))
    assert found.choice is None
    rows = decisive_operations(fitted, new, *found.ranking[:2], samples=8000)
    assert rows.filter(pl.col("type") == "Einsum")["choice_s"].to_list() == [None]
