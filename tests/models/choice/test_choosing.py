"""Limits, fronts and relaxations against definitions, on made-up outcomes."""

from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from models.choice.limits import (
    LIMITS,
    Limits,
    Outcome,
    exceeded_limits,
    keeps_limits,
    least_of,
    relaxations,
)
from models.choice.offers import pareto_front, preferred_prices, prices_in_one_region


@dataclass(frozen=True)
class Made:
    """An option of which only the outcome is known."""

    outcome: Outcome


AMOUNTS = st.integers(1, 6).map(float)
OPTIONS = st.lists(
    st.builds(lambda *amounts: Made(Outcome(*amounts)), AMOUNTS, AMOUNTS, AMOUNTS), max_size=8
)
BOUNDS = st.builds(
    lambda *amounts: Limits(**dict(zip(LIMITS, amounts, strict=True))),
    *[st.none() | AMOUNTS for _ in LIMITS],
)


def test_each_limit_is_of_its_own_amount() -> None:
    outcome = Outcome(time_s=3.0, cost_usd=2.0, usd_per_hour=1.0)
    assert exceeded_limits(Limits(), outcome) == ()
    assert exceeded_limits(Limits(deadline_s=2.0, budget_usd=2.0, usd_per_hour=2.0), outcome) == (
        "deadline_s",
    )
    assert (
        exceeded_limits(Limits(deadline_s=1.0, budget_usd=1.0, usd_per_hour=0.0), outcome) == LIMITS
    )


@given(OPTIONS)
def test_a_front_has_what_nothing_beats(options: list[Made]) -> None:
    front = [
        option.outcome[:2]
        for option in pareto_front(options, key=lambda option: option.outcome[:2])
    ]
    places = {option.outcome[:2] for option in options}
    assert front == sorted(
        place
        for place in places
        if not any(
            other != place and other[0] <= place[0] and other[1] <= place[1] for other in places
        )
    )


@given(OPTIONS, BOUNDS)
def test_each_relaxation_admits_a_choice_and_no_smaller_one_does(
    options: list[Made], limits: Limits
) -> None:
    if any(keeps_limits(limits, option) for option in options):
        return
    by_limit = dict(relaxations(limits, least_of(options)))
    for limit in LIMITS:
        others = [option for option in options if keeps_limits(limits.but(limit, None), option)]
        assert (limit in by_limit) == (limits.of(limit) is not None and bool(others))
        if limit in by_limit:
            needed = by_limit[limit].outcome[LIMITS.index(limit)]
            enough, short = limits.but(limit, needed), limits.but(limit, needed - 0.5)
            assert any(keeps_limits(enough, option) for option in options)
            assert not any(keeps_limits(short, option) for option in options)
            assert keeps_limits(enough, by_limit[limit])


WHEN = datetime(2030, 1, 1, tzinfo=UTC)


def test_spot_nodes_do_not_make_their_region_dearer() -> None:
    """On demand they cost 3 everywhere; one region has spot nodes for 1 as well."""
    rows = [(None, "on_demand", 3.0, False), ("east", "spot", 1.0, True)]
    prices = pl.DataFrame(rows, ["region", "market", "usd_per_hour", "observed"], orient="row")
    known = prices.with_columns(
        provider=pl.lit("aws"),
        node_type=pl.lit("fast"),
        zone=pl.lit(None, pl.String),
        observed_at=pl.lit(WHEN),
        source=pl.lit("made up"),
    )
    region_prices = prices_in_one_region(preferred_prices(known), {"fast": 2}, "any", WHEN)
    assert [(price.market, price.usd_per_hour) for price in region_prices] == [
        ("on_demand", 3.0),
        ("spot", 1.0),
    ]
