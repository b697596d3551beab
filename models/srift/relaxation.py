"""No feasible choice: which limit to relax, and by how much."""

from math import inf
from typing import Literal

import numpy as np

from models.srift.evaluation import Evaluator
from models.srift.exploration import Limits
from models.srift.job import FORGIVEN, Forecast, Job, Objective, forecast
from models.srift.search import Search
from models.srift.space import options, reachable
from warehouse.records import Record

Constraint = Literal["deadline_s", "budget_usd", "usd_per_hour", "capacity", "global_batch"]
_ENOUGH = 1e-3


class Relaxation(Record):
    """A limit without which there would be a choice: what it is, and what it would have to be.

    Limits of capacity and of the global batch are in samples. `forecast` is the choice that the
    relaxed limit admits, None where that was not looked for.
    """

    constraint: Constraint
    limit: float
    needed: float
    forecast: Forecast | None = None

    @property
    def text(self) -> str:
        """One line that says what to change, and by how much."""
        by = f"{self.needed / self.limit - 1:+.1%}" if self.limit else "there is none"
        match self.constraint:
            case "deadline_s":
                return f"raise the deadline from {self.limit:.1f} s to {self.needed:.1f} s ({by})"
            case "budget_usd":
                return f"raise the budget from ${self.limit:.2f} to ${self.needed:.2f} ({by})"
            case "usd_per_hour":
                return f"allow ${self.needed:.4g} an hour instead of ${self.limit:.4g} ({by})"
            case "capacity":
                return (
                    f"offer more nodes: those on offer hold {self.limit:.0f} of "
                    f"{self.needed:.0f} samples ({by})"
                )
            case "global_batch":
                return f"change the global batch from {self.limit:.0f} to {self.needed:.0f} ({by})"


def relaxed(evaluator: Evaluator, job: Job, types: int) -> tuple[Relaxation, ...]:
    """Return by how much each limit has to rise with the others kept; an hour's to a thousandth.

    Where none suffices alone: to what the fastest and the cheapest configuration need.
    """
    limits, space = job.limits, evaluator.space

    def best(objective: Objective, within: Limits) -> Forecast | None:
        search = Search(evaluator, within, lambda: False, objective=objective)
        rows = search.run(job.global_batch, types)
        return forecast(space, rows[0], job) if rows else None

    def late(found: Forecast | None) -> list[Relaxation]:
        limit = job.deadline_s
        if found is None or limit is None or found.time_s <= limit * FORGIVEN:
            return []
        return [
            Relaxation(constraint="deadline_s", limit=limit, needed=found.time_s, forecast=found)
        ]

    def dear(found: Forecast | None) -> list[Relaxation]:
        limit = job.budget_usd
        if found is None or limit is None or found.cost_usd <= limit * FORGIVEN:
            return []
        return [
            Relaxation(constraint="budget_usd", limit=limit, needed=found.cost_usd, forecast=found)
        ]

    def dear_an_hour(found: Forecast | None) -> list[Relaxation]:
        limit = job.usd_per_hour
        if found is None or limit is None or found.usd_per_hour <= limit * FORGIVEN:
            return []
        needed = found.usd_per_hour
        return [Relaxation(constraint="usd_per_hour", limit=limit, needed=needed, forecast=found)]

    def least_an_hour() -> Forecast | None:
        """Halve what is between a price that suffices and one that does not."""
        found, low = best("time", limits._replace(usd_per_s=inf)), job.usd_per_hour or 0.0
        while found is not None and found.usd_per_hour > low * (1 + _ENOUGH):
            middle = (low + found.usd_per_hour) / 2
            cheaper = best("time", limits._replace(usd_per_s=middle / 3600))
            found, low = (found, middle) if cheaper is None else (cheaper, low)
        return found

    alone = late(best("time", limits._replace(step_s=inf)))
    alone += dear(best("cost", limits._replace(step_usd=inf)))
    if job.usd_per_hour is not None:
        alone += dear_an_hour(least_an_hour())
    if alone:
        return tuple(alone)
    for within in (Limits(usd_per_s=limits.usd_per_s), Limits()):
        fastest, cheapest = best("time", within), best("cost", within)
        if fastest is not None:
            break
    return tuple(late(fastest) + dear(cheapest) + dear_an_hour(cheapest))


def divisible(evaluator: Evaluator, job: Job, types: int) -> tuple[Relaxation, ...]:
    """Return what keeps the nodes on offer from dividing the global batch.

    They hold too few samples, or no whole number of nodes with power-of-two batches makes exactly
    this one; then the nearest global batches that can be divided are named.
    """
    performance, batch = evaluator.performance, job.global_batch
    offers = evaluator.space.offers
    # Where there is room for a batch, there is a size from it to its double, or of single samples.
    devices = [performance.node(one.node_type).devices for one in offers]
    largest = max(2 * batch, *devices)
    space = options(performance, offers, largest)
    rooms = [int(space.samples[space.offer == i].max(initial=0)) for i in range(len(offers))]
    room = sum(sorted(rooms)[-types:])
    if room < batch:
        return (Relaxation(constraint="capacity", limit=room, needed=batch),)
    sizes = np.flatnonzero(reachable(space, largest, types))
    nearest = [*sizes[sizes < batch][-1:].tolist(), *sizes[sizes > batch][:1].tolist()]
    return tuple(
        Relaxation(constraint="global_batch", limit=batch, needed=one) for one in nearest if one
    )
