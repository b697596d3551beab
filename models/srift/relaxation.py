"""No feasible choice of nodes: which limit to relax, and by how much, found by search."""

import numpy as np

from models.choosing.limits import Job, Limit, Limits
from models.choosing.objectives import Objective
from models.choosing.relaxations import Relaxation, needs, relaxations
from models.srift.evaluation import Evaluator
from models.srift.exploration import StepLimits
from models.srift.forecast import Forecast, of_row
from models.srift.search import Search
from models.srift.space import options, reachable

_ENOUGH = 1e-3


def relaxed(evaluator: Evaluator, job: Job, types: int) -> tuple[Relaxation[Forecast], ...]:
    """Return by how much each limit has to rise with the others kept; an hour's to a thousandth.

    Where none suffices alone: to what the fastest and the cheapest configuration need.
    """

    def best(objective: Objective, within: Limits) -> Forecast | None:
        limits = StepLimits.of(within, job.iterations)
        search = Search(evaluator, limits, lambda: False, objective=objective)
        rows = search.run(job.global_batch, types)
        return of_row(evaluator.space, rows[0], job) if rows else None

    def least(limit: Limit, within: Limits) -> Forecast | None:
        match limit:
            case "deadline_s":
                return best("time", within)
            case "budget_usd":
                return best("cost", within)
            case "usd_per_hour":
                return least_an_hour(within)

    def least_an_hour(within: Limits) -> Forecast | None:
        """Halve what is between a price that suffices and one that does not."""
        found, low = best("time", within), job.usd_per_hour or 0.0
        while found is not None and found.usd_per_hour > low * (1 + _ENOUGH):
            middle = (low + found.usd_per_hour) / 2
            cheaper = best("time", within.but("usd_per_hour", middle))
            found, low = (found, middle) if cheaper is None else (cheaper, low)
        return found

    if alone := relaxations(job, least):
        return tuple(alone)
    for within in (Limits(usd_per_hour=job.usd_per_hour), Limits()):
        fastest, cheapest = best("time", within), best("cost", within)
        if fastest is not None:
            break
    late = [one for one in needs(job, fastest) if one.constraint == "deadline_s"]
    dear = [one for one in needs(job, cheapest) if one.constraint != "deadline_s"]
    return (*late, *dear)


def divisible(evaluator: Evaluator, job: Job, types: int) -> tuple[Relaxation[Forecast], ...]:
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
        return (Relaxation("capacity", room, batch),)
    sizes = np.flatnonzero(reachable(space, largest, types))
    nearest = [*sizes[sizes < batch][-1:].tolist(), *sizes[sizes > batch][:1].tolist()]
    return tuple(Relaxation("global_batch", batch, one) for one in nearest if one)
