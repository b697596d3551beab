"""The eager mode."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.choice.limits import LIMITS, Job
from models.choice.offers import Offer
from models.srift.iteration import Performance
from models.srift.optimizer import optimize, pareto_front
from models.srift.policies import optimize_eagerly, propose
from models.srift.predictor import Srift, fit
from models.srift.profiles import NetworkKey
from tests.models.srift.performances import node, offers, performances, rated
from tests.models.srift.study import group, scenario, tables
from tests.models.srift.test_predictor import EXACT

NETWORK = Performance(
    layer_bytes=(0,),
    nodes={
        "p3": node(0.1, 0.2, max_batch=256, devices=4),
        "g4dn": node(0.3, 0.6, max_batch=256),
        "g3": node(0.4, 0.7, max_batch=300),
    },
    bandwidth=rated(p3=1.0, g4dn=1.0, g3=1.0),
)
OFFERS = (
    Offer(node_type="p3", usd_per_hour=3.68, capacity=4),
    Offer(node_type="g3", usd_per_hour=0.69, capacity=8),
    Offer(node_type="g4dn", usd_per_hour=0.72, capacity=8),
)


@given(
    st.data(), performances(), st.sampled_from([8, 12, 6, 16, 1]), st.sampled_from(["time", "cost"])
)
def test_with_time_enough_eager_is_exhaustive(
    data: st.DataObject, performance: Performance, batch: int, minimize: str
) -> None:
    offered = data.draw(offers(performance))
    job = Job(global_batch=batch, iterations=1, minimize=minimize)
    k = data.draw(st.integers(1, 5))
    eager = optimize_eagerly(
        performance, offered, job, preference=list(performance.nodes), k=k, clock=lambda: 0.0
    )
    exhaustive = optimize(performance, offered, job)
    assert eager.complete
    assert (eager.choice is None) == (exhaustive.choice is None)
    of_eager, of_all = (
        {limit: option.outcome[LIMITS.index(limit)] for limit, option in result.relaxations}
        for result in (eager, exhaustive)
    )
    assert of_eager == pytest.approx(of_all)
    if eager.choice and exhaustive.choice:
        figure = "time_s" if minimize == "time" else "cost_usd"
        found, best = (getattr(each.choice, figure) for each in (eager, exhaustive))
        assert found == pytest.approx(best)


def test_types_are_enabled_one_after_the_other() -> None:
    """512 samples: eight g3 nodes alone, of K = 2 only two, then g4dn beside them."""
    job = Job(global_batch=1024, iterations=1, minimize="time")

    def chosen(k: int, time_budget_s: float, *preference: str) -> tuple[str | None, bool]:
        ticks = iter(range(1000))
        result = optimize_eagerly(
            NETWORK,
            OFFERS,
            job,
            preference=preference,
            k=k,
            time_budget_s=time_budget_s,
            clock=lambda: float(next(ticks)),
        )
        label = result.choice.configuration.label if result.choice else None
        return label, result.complete

    assert chosen(8, 0.5, "g3", "g4dn") == ("8 g3@128", False)
    assert chosen(2, 0.5, "g3", "g4dn") == (None, False)
    assert chosen(2, 1e9, "g3") == ("8 g3@128", True)


def test_an_interrupted_job_goes_on_with_other_nodes() -> None:
    """Section 5.4: ResNet50, 1024 samples, 400 iterations within 500 s, nodes up after 150 s.

    When 200 are left, 124 s remain, and of p3 there is only the one that survived.
    """
    gradients = tuple(1 - i / 10 for i in range(10))
    resnet = Performance(
        layer_bytes=(10_000_000,) * 10,
        nodes={
            "p3": node(0.0010, 0.0018, max_batch=128, devices=4, ready=gradients, link_Bps=1.4e9),
            "g3": node(0.0028, 0.0046, max_batch=64, ready=gradients, link_Bps=1.4e9),
            "g4dn": node(0.0028, 0.0046, max_batch=64, ready=gradients, link_Bps=2.5e9),
        },
        bandwidth=rated(p3=1.3e9, g3=1.3e9, g4dn=2.4e9),
    )
    job = Job(global_batch=1024, iterations=400, minimize="cost", deadline_s=350.0)
    offered = [offer.model_copy(update={"capacity": 32}) for offer in OFFERS]

    def chosen(job: Job, offered: list[Offer]) -> str:
        result = optimize_eagerly(
            resnet, offered, job, preference=("p3", "g3", "g4dn"), clock=lambda: 0.0
        )
        assert result.choice is not None
        return result.choice.configuration.label

    assert chosen(job, offered) == "2 p3@512"
    left = job.model_copy(update={"iterations": 200, "deadline_s": 124.0})
    survivor = [offered[0].model_copy(update={"capacity": 1}), *offered[1:]]
    assert chosen(left, survivor) == "1 p3@512 + 8 g3@64"


EACH = scenario(group("fast"), group("slow"))
BOTH = (
    Offer(node_type="fast", usd_per_hour=1.0, capacity=2),
    Offer(node_type="slow", usd_per_hour=0.3, capacity=4),
)


@pytest.fixture(scope="module")
def srift() -> Srift:
    """Return Srift fitted to the made-up study."""
    return fit(tables(), EXACT)


def job(**changes: object) -> Job:
    """Return 3,600 steps of 64 samples for the least money, with some changes."""
    fields = {"global_batch": 64, "iterations": 3600, "minimize": "cost"} | changes
    return Job.model_validate(fields)


def labels(srift: Srift, job: Job, offers: Sequence[Offer] = BOTH) -> list[str]:
    """Return proposals in words."""
    proposals = propose(srift, EACH, job, offers)
    return [" + ".join(nodes.label for nodes in proposal) for proposal in proposals]


def test_proposals_are_the_front_of_the_search(srift: Srift) -> None:
    """Two fast nodes hold the 64 samples, and so do one fast node and slow ones of 16 each."""
    front = pareto_front(srift.performance(NetworkKey.of(EACH), EACH.link_mbps), BOTH, job())
    proposed = labels(srift, job())
    assert proposed == [forecast.configuration.label for forecast in front]
    assert len(proposed) > 1
    assert any("fast" in label and "slow" in label for label in proposed)


def test_what_keeps_limits_is_proposed_and_else_what_limits_have_to_be_raised_for(
    srift: Srift,
) -> None:
    everything = labels(srift, job())
    front = pareto_front(srift.performance(NetworkKey.of(EACH), EACH.link_mbps), BOTH, job())
    middle_s = (front[0].time_s + front[-1].time_s) / 2
    within = labels(srift, job(deadline_s=middle_s))
    assert within == [
        forecast.configuration.label for forecast in front if forecast.time_s <= middle_s
    ]
    assert 0 < len(within) < len(everything)
    assert labels(srift, job(deadline_s=1.0)) == everything
    assert labels(srift, job(usd_per_hour=0.0)) == everything


def test_types_without_profile_and_batches_that_fit_nowhere_are_left_out(srift: Srift) -> None:
    other = Offer(node_type="other", usd_per_hour=0.01, capacity=9)
    assert labels(srift, job(), [*BOTH, other]) == labels(srift, job())
    assert labels(srift, job(), [other]) == []
    assert labels(srift, job(global_batch=4096)) == []
    unknown = scenario(group("fast"), link_mbps=300.0)
    assert list(propose(srift, unknown, job(), BOTH)) == []
