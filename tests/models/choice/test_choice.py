"""Choosing surely: by hand on few candidates, and never worse than all of them."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.choice.candidates import Candidate, Ratios, normal_ratios
from models.choice.choice import Objective, best, decide, worth_measuring
from models.choice.limits import Limits
from models.choice.overheads import ExpectedDuration

PLAIN = ExpectedDuration(0.0, 1.0, None)
NINE = Ratios(values=(0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3), basis="nine")


def candidate(name: str, train_s: float, usd_per_hour: float, **changes: Any) -> Candidate:
    """Return a candidate of one worker, whose forecasts err as nine before did."""
    about: dict[str, Any] = {"key": name, "label": name, "node_types": (name,), "workers": 1}
    about |= {"system": "some", "training": "torch", "market": "on_demand", "ratios": NINE}
    told = {**about, "expected": PLAIN, **changes}
    return Candidate(train_s=train_s, usd_per_hour=usd_per_hour, **told)


SLOW = candidate("slow", 3600, 1.0)
FAST = candidate("fast", 1800, 4.0)


def test_the_cheapest_by_its_deadline_is_not_sure_enough() -> None:
    """It takes an hour as forecast; 1.05 h are exceeded by 1.1, 1.2, 1.3 of nine: at most 4/10."""
    limits = Limits(deadline_s=1.05 * 3600)
    assert decide([SLOW, FAST], Objective("cost", limits)).choice == SLOW
    assert SLOW.chance_of_exceeding(limits, "deadline_s") == pytest.approx(0.4)
    assert decide([SLOW, FAST], Objective("cost", limits, late=0.4)).choice == SLOW
    surely = decide([SLOW, FAST], Objective("cost", limits, late=0.1))
    assert (surely.choice, surely.alternatives) == (FAST, (SLOW,))


def test_a_budget_is_exceeded_as_time_is() -> None:
    """A dollar buys an hour of the slow one: half of it is exceeded surely, 1.3 of it never."""
    assert SLOW.chance_of_exceeding(Limits(budget_usd=0.5), "budget_usd") == 1
    assert SLOW.chance_of_exceeding(Limits(budget_usd=1.3), "budget_usd") == pytest.approx(0.1)
    assert SLOW.chance_of_exceeding(Limits(usd_per_hour=1.0), "usd_per_hour") == 0
    assert SLOW.chance_of_exceeding(Limits(usd_per_hour=0.9), "usd_per_hour") == 1


def test_without_a_choice_it_says_what_to_relax() -> None:
    objective = Objective("cost", Limits(deadline_s=900, budget_usd=5), late=0.1)
    decision = decide([SLOW, FAST], objective)
    assert decision.choice is None
    assert decision.relaxations == ("raise --max-hours from 0.25 to 0.65 for fast",)
    relaxed = replace(objective, limits=Limits(deadline_s=2340, budget_usd=5))
    assert decide([SLOW, FAST], relaxed).choice == FAST


def test_measuring_the_rival_may_pay() -> None:
    """It costs 1.02 dollars as forecast and 1 is the best: below 1/1.02 it wins, in 4 of 9 cases.

    The mean saving is that of 0.8, 0.85, 0.9 and 0.95 times 1.02 dollars, over nine.
    """
    rival = candidate("rival", 3600, 1.02)
    sure = candidate("sure", 3600, 1.0, ratios=None)
    (worth,) = worth_measuring([sure, rival], Objective("cost", Limits()))
    assert worth.candidate == rival
    assert worth.chance == pytest.approx(4 / 9)
    savings = [1 - 1.02 * ratio for ratio in (0.8, 0.85, 0.9, 0.95)]
    assert worth.saving == pytest.approx(sum(savings) / 9)


amounts = st.floats(1, 1e6)
several = st.lists(st.tuples(amounts, amounts), min_size=1, max_size=8).map(
    lambda rows: [candidate(f"n{place}", *row) for place, row in enumerate(rows)]
)
limits = st.builds(Limits, deadline_s=st.none() | amounts, budget_usd=st.none() | amounts)
objectives = st.builds(
    Objective,
    st.sampled_from(["time", "cost"]),
    limits,
    st.none() | st.sampled_from([0.1, 0.2, 0.5]),
)


@given(several, objectives)
def test_the_choice_is_admitted_and_no_admitted_one_is_better(
    candidates: list[Candidate], objective: Objective
) -> None:
    decision = decide(candidates, objective)
    assert decision.choice == best(candidates, objective)
    admitted = [candidate for candidate in candidates if objective.admits(candidate)]
    assert (decision.choice is None) == (not admitted)
    if decision.choice is not None:
        assert objective.admits(decision.choice)
        least = min(objective.value(candidate.outcome) for candidate in admitted)
        assert objective.value(decision.choice.outcome) == least
    assert len(decision.alternatives) == min(2, len(candidates) - (decision.choice is not None))


@given(several, objectives)
def test_a_relaxed_limit_has_a_choice(candidates: list[Candidate], objective: Objective) -> None:
    """What is promised holds: the limit that is named admits a candidate."""
    decision = decide(candidates, objective)
    for text in decision.relaxations:
        loose = objective.limits.but("deadline_s" if "--max-hours" in text else "budget_usd", None)
        assert best(candidates, replace(objective, limits=loose)) is not None


def test_where_none_keeps_the_limits_the_nearest_are_told() -> None:
    """All are late by all that is known: the fast one by the least, though it costs the most."""
    decision = decide([SLOW, FAST], Objective("cost", Limits(deadline_s=60), late=0.1))
    assert (decision.choice, decision.alternatives) == (None, (FAST, SLOW))


NINE_RATIOS = Ratios(values=(1.3, 0.8, 0.9, 1.0, 1.1, 0.95, 1.05, 1.2, 0.85), basis="nine")
positive = st.floats(0.01, 100)
some = st.lists(positive, min_size=1, max_size=60).map(
    lambda values: Ratios(values=tuple(values), basis="any")
)


def test_ranks_of_nine_ratios() -> None:
    """A tenth ratio is in each of the ten gaps with a probability of a tenth."""
    assert NINE_RATIOS.probability_above(1.3) == pytest.approx(0.1)
    assert NINE_RATIOS.probability_above(1.2) == pytest.approx(0.2)
    assert NINE_RATIOS.probability_above(0.1) == 1
    assert NINE_RATIOS.high(0.1) == 1.3
    assert NINE_RATIOS.high(0.2) == 1.2
    assert NINE_RATIOS.high(0.09) is None
    assert NINE_RATIOS.low(0.1) == 0.8
    assert NINE_RATIOS.low(0.09) is None
    assert NINE_RATIOS.spread == pytest.approx(
        (0.3 + 0.2 + 0.1 + 0 + 0.1 + 0.05 + 0.05 + 0.2 + 0.15) / 9
    )


@given(some, st.floats(0.01, 0.99))
def test_the_upper_end_is_the_least_that_is_unlikely_enough(ratios: Ratios, level: float) -> None:
    high = ratios.high(level)
    for value in ratios.values:
        unlikely = ratios.probability_above(value) <= level + 1e-9
        assert unlikely == (high is not None and value >= high)


def test_exchangeable_ratios_exceed_the_upper_end_no_more_often_than_said() -> None:
    """Of draws from one law, at most a tenth is above the end that twenty others give."""
    random = Random(1)
    draws = 4000
    above = 0
    for _ in range(draws):
        *past, new = (random.lognormvariate(0.1, 0.3) for _ in range(21))
        high = Ratios(values=tuple(past), basis="").high(0.1)
        above += high is not None and new > high
    # (20 + 1) / 10 rounds up to 19 of 20, so that the true share is 2 of 21.
    assert above / draws == pytest.approx(2 / 21, abs=0.015)


def test_a_normal_law_has_its_percentiles() -> None:
    ratios = normal_ratios(0.2, "law")
    assert ratios.high(0.16) == pytest.approx(2.718281828 ** (0.2 * 0.9945), rel=1e-3)
    assert ratios.high(0.5) == pytest.approx(1)
    assert ratios.probability_above(ratios.values[0]) == pytest.approx(0.99)


LAUNCHED = ExpectedDuration(150.0, 1.0, None, launch_s=150.0)


def test_an_interval_contains_what_launching_varies_by() -> None:
    """Four seconds of training behind 150 of launching: half to twice as long in nine of ten."""
    exact = Ratios(values=(1.0,) * 99, basis="exact")
    short = candidate("short", 4.0, 1.0, ratios=exact, expected=LAUNCHED)
    span, cost = short.spans(0.1)
    assert span.low == pytest.approx(4 + 75)
    assert span.high == pytest.approx(4 + 300)
    assert cost.high == pytest.approx(304 / 3600)
    half, surely = Limits(deadline_s=154.0), Limits(deadline_s=400.0)
    assert short.chance_of_exceeding(half, "deadline_s") == pytest.approx(0.5, abs=0.06)
    assert short.chance_of_exceeding(surely, "deadline_s") == pytest.approx(0.01)
    # What is exceeded with some probability keeps a limit at it that surely, and no less surely.
    worst = Limits(deadline_s=short.worst(0.1).time_s)
    assert short.chance_of_exceeding(worst, "deadline_s") <= 0.1
    long = candidate("long", 36_000.0, 1.0, expected=LAUNCHED)
    alone = candidate("alone", 36_000.0, 1.0, expected=ExpectedDuration(150.0, 1.0, None))
    assert long.outcome.time_s == alone.outcome.time_s
    assert long.worst(0.1).time_s == pytest.approx(alone.worst(0.1).time_s, rel=0.01)


def test_rounding_moves_no_end_of_an_interval() -> None:
    """Ends are past times themselves, so the last bit of one decides what is beyond it."""
    random = Random(3)
    for _ in range(50):
        sigma, train_s = random.uniform(0.05, 0.6), random.uniform(50.0, 50_000.0)
        ends = {
            (round(time_s.low or 0.0, 6), round(time_s.high or 0.0, 6))
            for change in (0.0, 1e-15, -1e-15, 1e-14, -1e-14)
            for ratios in [normal_ratios(sigma * (1 + change), "law")]
            for time_s, _ in [
                candidate("one", train_s, 1.0, ratios=ratios, expected=LAUNCHED).spans(0.1)
            ]
        }
        assert len(ends) == 1


def test_who_is_faster_by_less_than_launching_varies_by_is_no_faster() -> None:
    """256 GPUs for 2.8 minutes, 32 for 4.5 and 8 for ten: launching alone takes 1.2 to 5."""
    many, some, few = (
        candidate(name, train_s, usd_per_hour, expected=LAUNCHED)
        for name, train_s, usd_per_hour in (
            ("many", 15, 1_760),
            ("some", 120, 220),
            ("few", 480, 55),
        )
    )
    fast = Objective("time", Limits(budget_usd=200.0), None)
    assert best([many, some, few], fast) is some
    decision = decide([many, some, few], fast)
    assert decision.choice is some and decision.alternatives == (many, few)
    known = [replace(each, expected=PLAIN) for each in (many, some, few)]
    assert best(known, fast) is known[0]
