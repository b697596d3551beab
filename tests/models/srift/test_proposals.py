"""What Srift proposes for a job: the front of its search, as nodes and batches of devices."""

from collections.abc import Sequence

import pytest

from models.choice.limits import Job
from models.choice.offers import Offer, ProposedNodes
from models.srift import proposals
from models.srift.optimizer import pareto_front
from models.srift.performance import Configuration, ConfigurationGroup
from models.srift.predictor import Srift, fit
from models.srift.profiles import NetworkKey
from models.srift.proposals import propose
from tests.models.srift.study import group, scenario, tables
from tests.models.srift.test_predictor import EXACT

EACH = scenario(group("fast"), group("slow"))
BOTH = (
    Offer(node_type="fast", usd_per_hour=1.0, capacity=2),
    Offer(node_type="slow", usd_per_hour=0.3, capacity=4),
)


@pytest.fixture(scope="module")
def srift() -> Srift:
    """Return Srift fitted to the made-up study."""
    return fit(**tables(), settings=EXACT)


def job(**changes: object) -> Job:
    """Return 3,600 steps of 64 samples for the least money, with some changes."""
    asked = {"global_batch": 64, "iterations": 3600, "minimize": "cost"} | changes
    return Job.model_validate(asked)


def labels(srift: Srift, job: Job, offers: Sequence[Offer] = BOTH) -> list[str]:
    """Return proposals in words."""
    found = propose(srift, EACH, job, offers)
    return [" + ".join(nodes.label for nodes in proposal) for proposal in found]


def test_proposals_are_the_front_of_the_search(srift: Srift) -> None:
    """Two fast nodes hold the 64 samples, and so do one fast node and slow ones of 16 each."""
    front = pareto_front(srift.performance(NetworkKey.of(EACH), EACH.link_mbps), BOTH, job())
    found = labels(srift, job())
    assert found == [one.configuration.label for one in front]
    assert len(found) > 1
    assert any("fast" in one and "slow" in one for one in found)


def test_what_keeps_limits_is_proposed_and_else_what_limits_have_to_be_raised_for(
    srift: Srift,
) -> None:
    everything = labels(srift, job())
    front = pareto_front(srift.performance(NetworkKey.of(EACH), EACH.link_mbps), BOTH, job())
    middle_s = (front[0].time_s + front[-1].time_s) / 2
    within = labels(srift, job(deadline_s=middle_s))
    assert within == [one.configuration.label for one in front if one.time_s <= middle_s]
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


def test_a_batch_is_that_of_a_device(srift: Srift) -> None:
    """Two devices of a node have half of its samples each."""
    pairs = EACH.model_copy(
        update={"strategy": EACH.strategy.model_copy(update={"devices_per_node": 2})}
    )
    (found, *_) = propose(srift, pairs, job(), BOTH[:1])
    assert found == (ProposedNodes(1, "fast", 32),) or found == (ProposedNodes(2, "fast", 16),)
    performance = srift.performance(NetworkKey.of(pairs), pairs.link_mbps).with_devices(2)
    nodes = [
        ConfigurationGroup(node_type=one.node_type, count=one.count, batch_size=2 * one.batch_size)
        for one in found
    ]
    assert srift.interval(performance, Configuration(groups=tuple(nodes)))[0] > 0


def test_of_many_as_many_as_can_be_asked_about(
    srift: Srift, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = labels(srift, job())
    assert len(everything) > 2
    monkeypatch.setattr(proposals, "MOST", 2)
    assert labels(srift, job()) == [everything[0], everything[-1]]


def test_where_too_many_can_be_combined_fewer_are(
    srift: Srift, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "SEARCHED", 3)
    found = labels(srift, job())
    assert found and not any("+" in one for one in found)
