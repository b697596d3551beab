"""No feasible choice: what is said matches what trying everything shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.choice.limits import FORGIVEN, Job, Relaxation
from models.choice.offers import Offer
from models.srift.allreduce_samples import RatedBandwidth
from models.srift.iteration import Performance
from models.srift.optimizer import ConfigurationForecast, optimize
from tests.models.srift.performances import every_forecast, node, offers, performances


@given(
    st.data(),
    performances(most_types=2),
    st.sampled_from([8, 12, 6, 16, 1]),
    st.floats(0.3, 1.5),
    st.floats(0.3, 1.5),
)
def test_each_relaxation_is_as_small_as_it_can_be(
    data: st.DataObject,
    performance: Performance,
    batch: int,
    of_fastest: float,
    of_cheapest: float,
) -> None:
    offered = data.draw(offers(performance))
    job = Job(global_batch=batch, iterations=10, minimize="time")
    known = every_forecast(performance, offered, job, len(offered))
    if not known or min(one.cost_usd for one in known) == 0:
        return
    deadline_s = of_fastest * min(one.time_s for one in known)
    budget_usd = of_cheapest * min(one.cost_usd for one in known)
    found = optimize(
        performance,
        offered,
        job.model_copy(update={"deadline_s": deadline_s, "budget_usd": budget_usd}),
    )
    soon = [one for one in known if one.time_s <= deadline_s * FORGIVEN]
    cheap = [one for one in known if one.cost_usd <= budget_usd * FORGIVEN]
    expected = {}
    if cheap:
        expected["deadline_s"] = min(one.time_s for one in cheap)
    if soon:
        expected["budget_usd"] = min(one.cost_usd for one in soon)
    if not cheap and not soon:
        expected["deadline_s"] = min(one.time_s for one in known)
        expected["budget_usd"] = min(one.cost_usd for one in known)
    if any(one in cheap for one in soon):
        assert found.relaxations == ()
        return
    assert found.choice is None
    said = {relaxation.constraint: relaxation.needed for relaxation in found.relaxations}
    assert said == pytest.approx(expected, rel=1e-9)
    for relaxation in found.relaxations:
        assert isinstance(relaxation.option, ConfigurationForecast)
        if len(said) == 1 or cheap or soon:
            enough = job.model_copy(
                update={
                    "deadline_s": deadline_s,
                    "budget_usd": budget_usd,
                    relaxation.constraint: relaxation.needed,
                }
            )
            assert optimize(performance, offered, enough).choice is not None


ONE = Performance(
    layer_bytes=(0,),
    nodes={"one": node(1.0, 1.0, max_batch=4), "two": node(1.0, 1.0, max_batch=4, devices=2)},
    bandwidth=RatedBandwidth(rated_Bps={"one": 1.0, "two": 1.0}),
)


def relaxations(job: Job, *offered: Offer) -> tuple[Relaxation[ConfigurationForecast], ...]:
    found = optimize(ONE, offered, job)
    assert found.choice is None
    return found.relaxations


def offer(name: str, capacity: int) -> Offer:
    return Offer(node_type=name, usd_per_hour=36.0, capacity=capacity)


def test_time_or_money_by_how_much() -> None:
    """One iteration: 2 one@4 8 s for 16 cents; up to 8 one@1 2 s for as much."""
    job = Job(global_batch=8, iterations=1, minimize="cost", deadline_s=1.6, budget_usd=0.2)
    (late,) = relaxations(job, offer("one", 8))
    assert late.text == "raise the deadline from 1.6 s to 2.0 s (+25.0%)"
    assert late.option is not None
    assert late.option.configuration.label == "8 one@1"
    (dear,) = relaxations(
        job.model_copy(update={"deadline_s": None, "budget_usd": 0.1}), offer("one", 8)
    )
    assert dear.text == "raise the budget from $0.10 to $0.16 (+60.0%)"
    both = relaxations(job.model_copy(update={"budget_usd": 0.1}), offer("one", 8))
    assert [one.constraint for one in both] == ["deadline_s", "budget_usd"]


def test_a_price_an_hour_by_how_much() -> None:
    """Nodes cost 36 dollars an hour: 2 of them hold the batch, which takes 8 s; 8 need 2 s."""
    job = Job(global_batch=8, iterations=1, minimize="time", usd_per_hour=72)
    cheapest = optimize(ONE, [offer("one", 8)], job).choice
    assert cheapest is not None
    assert cheapest.configuration.label == "2 one@4"
    (dear,) = relaxations(job.model_copy(update={"usd_per_hour": 36.0}), offer("one", 8))
    assert dear.text == "allow $72 an hour instead of $36 (+100.0%)"
    slow, dear = relaxations(job.model_copy(update={"deadline_s": 2.0}), offer("one", 8))
    assert slow.text == "raise the deadline from 2.0 s to 8.0 s (+300.0%)"
    assert dear.text == "allow $288 an hour instead of $72 (+300.0%)"
    neither = job.model_copy(update={"usd_per_hour": 36.0, "deadline_s": 1.0})
    assert [relaxation.constraint for relaxation in relaxations(neither, offer("one", 8))] == [
        "deadline_s",
        "usd_per_hour",
    ]


def test_too_few_nodes() -> None:
    (short,) = relaxations(Job(global_batch=40, iterations=1, minimize="cost"), offer("one", 5))
    assert short.text == "offer more nodes: those on offer hold 20 of 40 samples (+100.0%)"
    (none,) = relaxations(Job(global_batch=4, iterations=1, minimize="cost"), offer("one", 0))
    assert none.text == "offer more nodes: those on offer hold 0 of 4 samples (there is none)"


def test_a_batch_that_cannot_be_divided() -> None:
    """Two-device nodes only make even batches."""
    job = Job(global_batch=7, iterations=1, minimize="cost")
    assert [relaxation.needed for relaxation in relaxations(job, offer("two", 8))] == [6, 8]
    job = Job(global_batch=1, iterations=1, minimize="cost")
    (larger,) = relaxations(job, offer("two", 8))
    assert larger.text == "change the global batch from 1 to 2 (+100.0%)"
