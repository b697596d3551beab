"""Choices without a whole search: the eager mode (4.4), and what is proposed for a job."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf

from models.choice.limits import Job, objective_key
from models.choice.offers import Offer, Proposal, ProposedNodes
from models.srift.iteration import Performance
from models.srift.optimizer import ConfigurationForecast, OptimizerResult, optimize, pareto_front
from models.srift.predictor import Srift
from models.srift.profiles import NetworkKey
from models.srift.space import count_splits, list_offer_options
from warehouse.records import BadInput, Scenario


def optimize_eagerly(
    performance: Performance,
    offers: Sequence[Offer],
    job: Job,
    *,
    preference: Sequence[str],
    k: int = 8,
    time_budget_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> OptimizerResult:
    """Return the best configuration found by enabling one node type after the other.

    First at most `k` nodes of the type that is preferred, then as many of the next one with it, and
    so on; then the same with twice as many nodes, up to what is on offer. Every stage is searched
    exhaustively, and a later one only replaces a choice by a better one. The search ends with the
    last stage or when the time budget is spent, but never before the first stage was searched.

    Args:
        performance: profiles of the network and the bandwidth model.
        offers: node types on offer.
        job: what is to be trained.
        preference: node types, the best first; those not named are left out.
        k: nodes of each offer at first.
        time_budget_s: for the whole search.
        clock: seconds that pass.

    Raises:
        BadInput: as `optimize`.
    """
    ranked = [[offer for offer in offers if offer.node_type == name] for name in preference]
    end_s = clock() + time_budget_s
    stages = list(_stages(ranked, k))
    best = optimize(performance, stages[0], job, explain=len(stages) == 1)
    for i, stage in enumerate(stages[1:], 2):
        if clock() >= end_s:
            return replace(best, complete=False)
        last = i == len(stages)
        answer = optimize(performance, stage, job, explain=last, stop=lambda: clock() >= end_s)
        best = _better(best, answer, job)
    return best


def _stages(ranked: Sequence[Sequence[Offer]], k: int) -> Iterator[list[Offer]]:
    most = max((offer.capacity for offers in ranked for offer in offers), default=0)
    while True:
        for types in range(1, len(ranked) + 1):
            yield [
                offer.model_copy(update={"capacity": min(offer.capacity, k)})
                for offers in ranked[:types]
                for offer in offers
            ]
        if k >= most:
            return
        k *= 2


def _better(best: OptimizerResult, later: OptimizerResult, job: Job) -> OptimizerResult:
    """Return the better answer; of two without choice the later one, which was allowed more."""

    def value(answer: OptimizerResult) -> float:
        choice = answer.choice
        if choice is None:
            return inf
        return objective_key(job.minimize, choice.time_s, choice.cost_usd)[0]

    return replace(
        later if value(later) < value(best) or best.choice is None else best,
        complete=later.complete,
    )


# Configurations that Srift's optimiser proposes for a job: none is both faster and cheaper.

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
    known = [offer for offer in offers if _is_profiled(fitted, performance, offer, scenario)]
    unlimited = Job(global_batch=job.global_batch, iterations=job.iterations, minimize=job.minimize)
    front = _front(performance, known, job) or _front(performance, known, unlimited)
    return [
        tuple(
            ProposedNodes(group.count, group.node_type, group.batch_size // devices)
            for group in forecast.configuration.groups
        )
        for forecast in _thinned(front)
    ]


def _is_profiled(fitted: Srift, performance: Performance, offer: Offer, scenario: Scenario) -> bool:
    try:
        fitted.check_profiled(performance, [offer.node_type], scenario.link_mbps)
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
