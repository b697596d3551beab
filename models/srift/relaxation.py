"""No feasible choice: which limit to relax, and by how much."""

from typing import Literal

import numpy as np

from models.srift.evaluation import Evaluator
from models.srift.exploration import Limits
from models.srift.job import FORGIVEN, Forecast, Job, Objective, forecast
from models.srift.search import Search
from models.srift.space import options, reachable
from warehouse.records import Record

Constraint = Literal["deadline_s", "budget_usd", "capacity", "global_batch"]


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
            case "capacity":
                return (
                    f"offer more nodes: those on offer hold {self.limit:.0f} of "
                    f"{self.needed:.0f} samples ({by})"
                )
            case "global_batch":
                return f"change the global batch from {self.limit:.0f} to {self.needed:.0f} ({by})"


def relaxed(evaluator: Evaluator, job: Job, types: int) -> tuple[Relaxation, ...]:
    """Return by how much the deadline, or the budget, has to rise, each with the other kept.

    Where neither suffices alone: to what the fastest and the cheapest configuration need.
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

    alone = late(best("time", Limits(step_usd=limits.step_usd)))
    alone += dear(best("cost", Limits(step_s=limits.step_s)))
    return tuple(alone or late(best("time", Limits())) + dear(best("cost", Limits())))


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
