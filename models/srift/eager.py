"""The eager mode: some good choice in little time, with few kinds of nodes (section 4.4)."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf

from models.choosing.limits import Job
from models.choosing.objectives import VALUES, Objective
from models.choosing.offers import Offer
from models.srift.optimizer import Answer, optimize
from models.srift.performance import Performance
from models.srift.policies import speed
from warehouse.records import BadInput


def optimize_eagerly(
    performance: Performance,
    offers: Sequence[Offer],
    job: Job,
    *,
    preference: Sequence[str] | None = None,
    k: int = 8,
    time_budget_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Answer:
    """Return the best configuration found by enabling one node type after the other.

    First at most `k` nodes of the type that is preferred, then as many of the next one with it, and
    so on; then the same with twice as many nodes, up to what is on offer. Every stage is searched
    exhaustively, and a later one only replaces a choice by a better one. The search ends with the
    last stage or when the time budget is spent, but never before the first stage was searched.

    Args:
        performance: profiles of the network and the bandwidth model.
        offers: node types on offer.
        job: what is to be trained.
        preference: node types, the best first; those not named are left out. None: by what the job
            minimises: samples per second of a node, or per dollar.
        k: nodes of each offer at first.
        time_budget_s: for the whole search.
        clock: seconds that pass.

    Raises:
        BadInput: k below 1, a preferred type that is not on offer, or as `optimize`.
    """
    if not offers:
        raise BadInput("no node types to choose from: expected at least one offer")
    if k < 1:
        raise BadInput(f"eager search: K must be at least 1, found {k}")
    ranked = _ranked(performance, offers, job.minimize, preference)
    end_s = clock() + time_budget_s
    stages = list(_stages(ranked, k))
    best = optimize(performance, stages[0], job, explain=len(stages) == 1)
    for i, stage in enumerate(stages[1:], 2):
        if clock() >= end_s:
            return replace(best, complete=False)
        last = i == len(stages)
        found = optimize(performance, stage, job, explain=last, stop=lambda: clock() >= end_s)
        best = _better(best, found, job)
    return best


def _ranked(
    performance: Performance,
    offers: Sequence[Offer],
    minimize: Objective,
    preference: Sequence[str] | None,
) -> list[list[Offer]]:
    """Return the offers of each node type, preferred types first."""
    types = list(dict.fromkeys(one.node_type for one in offers))
    if preference is None:
        # Spot prices count where a type has both.
        price = {
            name: min(one.usd_per_hour for one in offers if one.node_type == name) for name in types
        }
        preference = sorted(
            types,
            key=lambda name: (
                -speed(performance, name)
                if minimize == "time"
                else price[name] / speed(performance, name)
            ),
        )
    unknown = [name for name in preference if name not in types]
    if unknown:
        raise BadInput(
            f"preferred node type {unknown[0]!r} is not on offer; on offer are {', '.join(types)}"
        )
    return [[one for one in offers if one.node_type == name] for name in preference]


def _stages(ranked: Sequence[Sequence[Offer]], k: int) -> Iterator[list[Offer]]:
    most = max((one.capacity for offers in ranked for one in offers), default=0)
    while True:
        for types in range(1, len(ranked) + 1):
            yield [
                one.model_copy(update={"capacity": min(one.capacity, k)})
                for offers in ranked[:types]
                for one in offers
            ]
        if k >= most:
            return
        k *= 2


def _better(best: Answer, found: Answer, job: Job) -> Answer:
    """Return the better answer; of two without choice the later one, which was allowed more."""

    def value(answer: Answer) -> float:
        choice = answer.choice
        return inf if choice is None else VALUES[job.minimize](choice.time_s, choice.cost_usd)

    return replace(
        found if value(found) < value(best) or best.choice is None else best,
        complete=found.complete,
        configurations=max(best.configurations, found.configurations),
        simulated=best.simulated + found.simulated,
    )
