from collections.abc import Mapping
from math import inf
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ceer.recommendation import (
    DeviceOffer,
    Instance,
    Objective,
    market_prices,
    price_epochs,
    pro_rata,
    recommend,
    regret,
    regrets,
    scenarios,
    total_budget,
)
from models.choice.limits import FORGIVEN, Limits
from warehouse.records import BadInput

PAPER = [
    Instance(name=name, node_type=node_type, devices=devices, usd_per_hour=usd)
    for name, node_type, devices, usd in (
        ("p3.2xlarge", "P3", 1, 3.06),
        ("p2.xlarge", "P2", 1, 0.90),
        ("g4dn.2xlarge", "G4", 1, 0.752),
        ("g3s.xlarge", "G3", 1, 0.75),
        ("p3.8xlarge", "P3", 4, 12.24),
        ("p2.8xlarge", "P2", 8, 7.20),
        ("g4dn.12xlarge", "G4", 4, 3.912),
        ("g3.16xlarge", "G3", 4, 4.56),
    )
]
"""Section V."""


def offer(node_type: str, devices: int) -> DeviceOffer:
    """Return what the paper would pay for so many devices."""
    return next(
        device_offer
        for device_offer in pro_rata(PAPER)
        if (device_offer.node_type, device_offer.devices) == (node_type, devices)
    )


@pytest.mark.parametrize(
    ("node_type", "devices", "instance", "usd"),
    [
        ("P2", 3, "p2.8xlarge", 2.70),
        ("P2", 8, "p2.8xlarge", 7.20),
        ("G3", 3, "g3.16xlarge", 3.42),
        ("G4", 3, "g4dn.12xlarge", 2.934),
        ("P3", 3, "p3.8xlarge", 9.18),
    ],
)
def test_the_paper_s_prices(node_type: str, devices: int, instance: str, usd: float) -> None:
    device_offer = offer(node_type, devices)
    assert device_offer.instance == instance
    assert device_offer.usd_per_hour == pytest.approx(usd)


def times(rows: Mapping[tuple[str, int], float | None], **columns: Any) -> pl.DataFrame:
    """Return epochs by node type and number of devices, hours."""
    frame = pl.DataFrame(
        [(node, k, None if hours is None else hours * 3600) for (node, k), hours in rows.items()],
        schema={"node_type": pl.String, "devices": pl.Int64, "time_s": pl.Float64},
        orient="row",
    )
    return price_epochs(frame.with_columns(**columns), pro_rata(PAPER))


HOURS = {("P3", 1): 1.5, ("P3", 3): 0.8, ("P3", 4): 0.7, ("P2", 1): 15.0, ("P2", 3): 6.0}
HOURS |= {("G4", 1): 5.0, ("G4", 3): 2.0, ("G4", 4): 1.6, ("G3", 1): 9.0, ("G3", 3): 3.5}


def test_costs_are_time_times_price() -> None:
    costs = {row[:2]: row[2] for row in times(HOURS)["node_type", "devices", "cost_usd"].rows()}
    assert len(costs) == len(HOURS)
    assert costs["P3", 3] == pytest.approx(0.8 * 9.18)
    assert costs["P2", 3] == pytest.approx(6 * 2.7)


@pytest.mark.parametrize(
    ("scenario", "choice"),
    [
        ("hourly_budget", ("P3", 1)),
        ("total_budget", ("P3", 4)),
        ("cheapest", ("G4", 1)),
        ("market_prices", ("G4", 1)),
    ],
)
def test_the_paper_s_scenarios(scenario: str, choice: tuple[str, int]) -> None:
    chosen = recommend(times(HOURS), scenarios()[scenario]).choice
    assert chosen is not None
    assert (chosen.node_type, chosen.devices) == choice
    assert chosen.link_mbps is None


def test_a_total_budget_excludes_what_costs_more() -> None:
    recommendation = recommend(times(HOURS), total_budget(8.0))
    # 0.7 h at 12.24 is 8.57 dollars.
    assert recommendation.choice is not None
    assert recommendation.choice.place == ("P3", 3, None)
    dear = next(option for option in recommendation.ranking if option.place[:2] == ("P3", 4))
    assert dear.obstacle == "8.568 US dollars, above 8"


def test_prices_change_the_choice() -> None:
    market = market_prices({"P3": 3.06, "G4": 0.95, "G3": 0.55, "P2": 0.15}, 4)
    recommendation = recommend(
        price_epochs(times(HOURS).select("node_type", "devices", "time_s"), market),
        scenarios()["market_prices"],
    )
    assert recommendation.choice is not None
    assert recommendation.choice.place == ("P2", 1, None)
    assert recommendation.choice.cost_usd == pytest.approx(15 * 0.15)


def test_regret_is_against_the_measured_best() -> None:
    predicted, measured = times(HOURS), times(HOURS | {("G4", 1): 6.0, ("P3", 1): 1.0})
    ranking = recommend(predicted, scenarios()["cheapest"])
    # Measured: G4 costs 4.512 and P3 3.06 dollars; G3 6.75, and four P3 8.568.
    assert regrets(ranking, measured) == pytest.approx(
        {"ceer": 4.512 / 3.06 - 1, "cheapest": 6.75 / 3.06 - 1, "most powerful": 8.568 / 3.06 - 1}
    )
    assert regret(recommend(measured, ranking.objective).choice, measured, ranking.objective) == 0


def test_regret_of_a_choice_that_breaks_a_limit_is_infinite() -> None:
    budget = total_budget(8.0)
    chosen = recommend(times(HOURS), budget).choice
    assert regret(chosen, times(HOURS | {("P3", 3): 0.9}), budget) == inf
    assert regret(None, times(HOURS), budget) == inf
    assert regret(None, times(HOURS), total_budget(0.1)) == 0
    assert regret(chosen, times({("G4", 1): 5.0}), budget) is None


def test_an_operation_nobody_measured_is_an_obstacle() -> None:
    recommendation = recommend(
        times({("G4", 1): None, ("P3", 1): 9.0}, unseen=pl.lit(["Einsum"])),
        scenarios()["cheapest"],
    )
    assert recommendation.choice is not None
    assert recommendation.choice.node_type == "P3"
    assert recommendation.ranking[-1].obstacle == "nobody measured Einsum there"


@given(
    hours=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
    limit=st.one_of(st.none(), st.floats(0.5, 400)),
    power=st.floats(0, 3),
)
def test_nothing_within_the_limits_is_better(
    hours: list[float], limit: float | None, power: float
) -> None:
    table = times(dict(zip([("P3", 1), ("G4", 1), ("P2", 2)], hours, strict=True)))
    wanted = Objective(
        "ours", lambda time_s, cost_usd: time_s**power * cost_usd, Limits(budget_usd=limit)
    )
    recommendation = recommend(table, wanted)
    most = (limit or inf) * FORGIVEN
    within = [row for row in table.iter_rows(named=True) if row["cost_usd"] <= most]
    assert (recommendation.choice is None) == (not within)
    if recommendation.choice is not None and recommendation.choice.objective is not None:
        values = [row["time_s"] ** power * row["cost_usd"] for row in within]
        assert recommendation.choice.objective == min(values)
        assert regret(recommendation.choice, table, wanted) == 0


def test_what_is_not_on_offer_is_named() -> None:
    epochs = pl.DataFrame({"node_type": ["P9"], "devices": [1], "time_s": [1.0]})
    with pytest.raises(BadInput, match="add a price of P9"):
        price_epochs(epochs, pro_rata(PAPER))
    with pytest.raises(BadInput, match="expected candidates, found none"):
        recommend(times(HOURS).clear(), scenarios()["cheapest"])
