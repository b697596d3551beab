"""Configurations that Srift's optimiser proposes for a job: none is both faster and cheaper."""

from collections.abc import Sequence

from models.choice.limits import Job
from models.choice.offers import Offer, Proposal, ProposedNodes
from models.srift.optimizer import ConfigurationForecast, pareto_front
from models.srift.performance import Performance
from models.srift.predictor import Srift
from models.srift.profiles import NetworkKey
from models.srift.space import count_splits, list_offer_options
from warehouse.records import BadInput, Scenario

MOST = 24
"""Of a longer front so many are proposed, as far apart as they can be, with both of its ends."""
SEARCHED = 2_000_000
"""Ways to divide a batch that are searched: some seconds."""


def propose(
    fitted: Srift, scenario: Scenario, job: Job, offers: Sequence[Offer]
) -> Sequence[Proposal]:
    """Return the Pareto front of time against cost within limits; where none keeps them, of all.

    Offers without profile of the network, or on which no all-reduce was probed, are left out. Where
    there are more ways to combine all offers than can be searched, fewer are combined.

    Args:
        fitted: to runs about the network on all nodes.
        scenario: the network, its images, the links, and the devices of a node.
        job: its batch, limits and objective.
        offers: node types on one market.
    """
    try:
        performance = fitted.performance(NetworkKey.of(scenario), scenario.link_mbps)
    except BadInput:
        return []
    devices = scenario.strategy.devices_per_node
    performance = performance.with_devices(devices)
    known = [one for one in offers if _is_profiled(fitted, performance, one, scenario)]
    unlimited = Job(global_batch=job.global_batch, iterations=job.iterations, minimize=job.minimize)
    front = _front(performance, known, job) or _front(performance, known, unlimited)
    return [
        tuple(
            ProposedNodes(group.count, group.node_type, group.batch_size // devices)
            for group in found.configuration.groups
        )
        for found in _thinned(front)
    ]


def _is_profiled(fitted: Srift, performance: Performance, offer: Offer, asked: Scenario) -> bool:
    try:
        fitted.check_profiled(performance, [offer.node_type], asked.link_mbps)
    except BadInput:
        return False
    return True


def _front(
    performance: Performance, offers: Sequence[Offer], job: Job
) -> Sequence[ConfigurationForecast]:
    """Return the front of as many offers together as can be searched."""
    if not offers:
        return ()
    space = list_offer_options(performance, offers, job.global_batch)
    searchable = (
        types
        for types in range(len(offers), 0, -1)
        if count_splits(space, job.global_batch, types) <= SEARCHED
    )
    types = next(searchable, None)
    return () if types is None else pareto_front(performance, offers, job, types)


def _thinned(front: Sequence[ConfigurationForecast]) -> Sequence[ConfigurationForecast]:
    if len(front) <= MOST:
        return front
    return [front[round(place * (len(front) - 1) / (MOST - 1))] for place in range(MOST)]
