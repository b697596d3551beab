"""The optimiser against trying everything, each with the event simulator."""

from operator import mul

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.choice.limits import FORGIVEN, LIMITS, Job
from models.choice.offers import Offer
from models.srift.iteration import Performance
from models.srift.optimizer import ConfigurationForecast, optimize, pareto_front
from models.srift.search import Evaluator, completion_bounds
from models.srift.space import list_offer_options, splits
from tests.models.srift.performances import every_forecast, node, offers, performances, rated
from warehouse.records import BadInput

BATCHES = st.sampled_from([8, 12, 6, 16, 10, 7, 4, 1])
FIGURES = {"deadline_s": "time_s", "budget_usd": "cost_usd", "usd_per_hour": "usd_per_hour"}
"""What each limit is of."""


def limits(data: st.DataObject, known: list[ConfigurationForecast], job: Job) -> Job:
    """Return the job with limits near what some configurations need."""
    drawn = {}
    for limit, figure in FIGURES.items():
        values = sorted(max(getattr(forecast, figure), 1e-6) for forecast in known) or [1.0]
        near = st.builds(mul, st.sampled_from(values), st.floats(0.9, 1.1))
        drawn[limit] = data.draw(st.none() | near)
    return job.model_copy(update=drawn)


def inside(job: Job, known: list[ConfigurationForecast]) -> list[ConfigurationForecast]:
    return [
        forecast
        for forecast in known
        if all(
            (most := getattr(job, limit)) is None or getattr(forecast, figure) <= most * FORGIVEN
            for limit, figure in FIGURES.items()
        )
    ]


@given(st.data(), performances(), BATCHES, st.sampled_from(["time", "cost"]), st.integers(1, 4))
def test_it_finds_what_trying_everything_finds(
    data: st.DataObject, performance: Performance, batch: int, minimize: str, max_types: int
) -> None:
    offered = data.draw(offers(performance))
    job = Job(global_batch=batch, iterations=10, minimize=minimize)
    max_types = min(max_types, len(offered))
    known = every_forecast(performance, offered, job, max_types)
    job = limits(data, known, job)
    result = optimize(performance, offered, job, max_types=max_types)
    feasible = inside(job, known)

    def value(forecast: ConfigurationForecast) -> float:
        return forecast.time_s if minimize == "time" else forecast.cost_usd

    assert (result.choice is None) == (not feasible)
    if result.choice is not None:
        assert value(result.choice) == pytest.approx(min(map(value, feasible)), rel=1e-9)
        by_label = {str(forecast.configuration): forecast for forecast in feasible}
        same = by_label[str(result.choice.configuration)]
        assert result.choice.step_time_s == pytest.approx(same.step_time_s, rel=1e-9)
        assert result.choice.cost_usd == pytest.approx(same.cost_usd, rel=1e-9)
    assert bool(result.relaxations) == (bool(known) and not feasible)


@given(st.data(), performances(), BATCHES)
def test_the_front_is_that_of_everything(
    data: st.DataObject, performance: Performance, batch: int
) -> None:
    offered = data.draw(offers(performance))
    job = Job(global_batch=batch, iterations=10, minimize="time")
    known = every_forecast(performance, offered, job, len(offered))
    job = limits(data, known, job)
    expected: list[ConfigurationForecast] = []
    for forecast in sorted(
        inside(job, known), key=lambda forecast: (forecast.time_s, forecast.cost_usd)
    ):
        if not expected or forecast.cost_usd < expected[-1].cost_usd:
            expected.append(forecast)
    searched = pareto_front(performance, offered, job)
    slack = 1 + 1e-9
    # Rounding may order ties differently: each front covers the other.
    for front, other in ((searched, expected), (expected, searched)):
        for forecast in front:
            assert any(
                two.time_s <= forecast.time_s * slack and two.cost_usd <= forecast.cost_usd * slack
                for two in other
            )
    assert [forecast.time_s for forecast in searched] == sorted(
        forecast.time_s for forecast in searched
    )


@given(st.data(), performances(), BATCHES)
def test_bounds_are_admissible(data: st.DataObject, performance: Performance, batch: int) -> None:
    offered = data.draw(offers(performance))
    space = list_offer_options(performance, offered, batch)
    evaluator = Evaluator(performance, space)
    for types in range(1, len(offered) + 1):
        for rows in splits(space, batch, types, np.ones(len(space.offer), dtype=bool)):
            if not len(rows):
                continue
            step_s = evaluator.step_s(rows, np.full(len(rows), np.inf))
            usd = step_s * evaluator.usd_per_s(rows)
            slack = 1 + 1e-9
            assert (evaluator.lower_bound_s(rows) <= step_s * slack).all()
            for part in range(1, types + 1):
                bound_s, bound_usd = completion_bounds(space, batch, rows[:, :part])
                assert (bound_s <= step_s * slack).all()
                assert (bound_usd <= usd * slack).all()


TWO = Performance(
    layer_bytes=(0,),
    nodes={"fast": node(1.0, 1.0, max_batch=4), "slow": node(2.0, 2.0, max_batch=4)},
    bandwidth=rated(fast=1.0, slow=1.0),
)


def offer(name: str, usd_per_hour: float, capacity: int, market: str = "on_demand") -> Offer:
    return Offer(node_type=name, market=market, usd_per_hour=usd_per_hour, capacity=capacity)


def test_limits_bind_whatever_is_minimised() -> None:
    """100 iterations: 1 fast@4 beside 2 slow@2 take 800 s of 11 $/h, 2 slow@4 1600 s of 2 $/h."""
    offered = (offer("fast", 9.0, 4), offer("slow", 1.0, 2))
    for limited, label, time_s, usd_per_hour in (
        ({"minimize": "cost", "deadline_s": 1000.0}, "1 fast@4 + 2 slow@2", 800.0, 11),
        ({"minimize": "time", "budget_usd": 1.0}, "2 slow@4", 1600.0, 2),
    ):
        job = Job.model_validate({"global_batch": 8, "iterations": 100, **limited})
        choice = optimize(TWO, offered, job).choice
        assert choice is not None and choice.configuration.label == label
        assert (choice.time_s, choice.cost_usd) == pytest.approx(
            (time_s, time_s * usd_per_hour / 3600)
        )


def test_what_was_stopped_says_so() -> None:
    job = Job(global_batch=8, iterations=1, minimize="time")
    result = optimize(TWO, [offer("fast", 9.0, 4)], job, stop=lambda: True)
    assert result.choice is None
    assert not result.complete
    assert result.relaxations == ()


def test_bad_offers_get_one_clear_line() -> None:
    job = Job(global_batch=8, iterations=1, minimize="time")
    with pytest.raises(BadInput, match="fast spot is offered twice"):
        optimize(TWO, [offer("fast", 1.0, 1, "spot"), offer("fast", 2.0, 1, "spot")], job)
    with pytest.raises(
        BadInput, match=r"'other' has no compute profile .* profiled are fast, slow"
    ):
        optimize(TWO, [offer("other", 1.0, 1)], job)


def test_too_large_a_space_is_refused() -> None:
    names = [f"type{i}" for i in range(12)]
    performance = Performance(
        layer_bytes=(0,),
        nodes={name: node(1.0, 1.0, max_batch=512) for name in names},
        bandwidth=rated(**dict.fromkeys(names, 1.0)),
    )
    job = Job(global_batch=4096, iterations=1, minimize="time")
    many = [offer(name, 1.0, 64) for name in names]
    with pytest.raises(BadInput, match="configurations of up to 12 of 12 offers"):
        optimize(performance, many, job)
    assert optimize(performance, many, job, max_types=1).choice is not None


@given(
    st.data(),
    performances(most_types=2),
    st.sampled_from([8, 12, 6, 16, 1]),
    st.floats(0.3, 1.5),
    st.floats(0.3, 1.5),
)
def test_each_relaxation_is_as_small_as_it_can_be(
    data: st.DataObject, performance: Performance, batch: int, of_fastest: float, of_cheapest: float
) -> None:
    offered = data.draw(offers(performance))
    job = Job(global_batch=batch, iterations=10, minimize="time")
    known = every_forecast(performance, offered, job, len(offered))
    if not known or min(forecast.cost_usd for forecast in known) == 0:
        return
    deadline_s = of_fastest * min(forecast.time_s for forecast in known)
    budget_usd = of_cheapest * min(forecast.cost_usd for forecast in known)
    limited = job.model_copy(update={"deadline_s": deadline_s, "budget_usd": budget_usd})
    result = optimize(performance, offered, limited)
    soon = [forecast for forecast in known if forecast.time_s <= deadline_s * FORGIVEN]
    cheap = [forecast for forecast in known if forecast.cost_usd <= budget_usd * FORGIVEN]
    expected = {}
    if cheap or not soon:
        expected["deadline_s"] = min(forecast.time_s for forecast in cheap or known)
    if soon or not cheap:
        expected["budget_usd"] = min(forecast.cost_usd for forecast in soon or known)
    if any(forecast in cheap for forecast in soon):
        assert result.relaxations == ()
        return
    assert result.choice is None
    needed = {limit: each.outcome[LIMITS.index(limit)] for limit, each in result.relaxations}
    assert needed == pytest.approx(expected, rel=1e-9)
    for limit, at_least in needed.items():
        if len(needed) == 1 or cheap or soon:
            enough = limited.model_copy(update={limit: at_least})
            assert optimize(performance, offered, enough).choice is not None
