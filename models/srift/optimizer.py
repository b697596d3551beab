"""Which nodes to rent for a job: the cheapest or the fastest within limits (section 4.4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.choosing.limits import Job
from models.choosing.offers import Offer
from models.choosing.relaxations import Relaxation
from models.srift.evaluation import Evaluator
from models.srift.exploration import StepLimits
from models.srift.forecast import Forecast, of_row
from models.srift.performance import Performance
from models.srift.relaxation import divisible, relaxed
from models.srift.search import Search
from models.srift.space import count_splits, exhaustible, options


@dataclass(frozen=True)
class Answer:
    """What the optimiser found.

    Attributes:
        choice: the best configuration within limits, None if there is none.
        alternatives: the next best, best first.
        relaxations: where there is no choice, each single change that would make one; where none
            suffices alone, what the fastest and the cheapest configuration need.
        configurations: ways to divide the global batch, counted before any was ruled out.
        simulated: configurations whose iteration was simulated.
        complete: whether nothing better can exist; False: the search was stopped.
    """

    choice: Forecast | None
    alternatives: tuple[Forecast, ...]
    relaxations: tuple[Relaxation[Forecast], ...]
    configurations: int
    simulated: int
    complete: bool = True


def optimize(
    performance: Performance,
    offers: Sequence[Offer],
    job: Job,
    *,
    max_types: int | None = None,
    keep: int = 5,
    explain: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> Answer:
    """Return the best configuration of all, by exhaustive search.

    All nodes of an offer have the same power-of-two batch per device. Ties go to what is better by
    the other objective, then to fewer offers, then to those given first.

    Args:
        performance: profiles of the network and the bandwidth model.
        offers: node types on offer.
        job: what is to be trained.
        max_types: most offers in one configuration; None: all of them.
        keep: how many configurations to return.
        explain: whether to look for relaxations where there is no choice.
        stop: asked now and then; True ends the search with what was found.

    Raises:
        BadInput: an offer without profile, or too many configurations to search them all.
    """
    space = options(performance, offers, job.global_batch)
    types = exhaustible(space, job.global_batch, max_types)
    evaluator = Evaluator(performance, space)
    limits = StepLimits.of(job, job.iterations)
    search = Search(evaluator, limits, stop, objective=job.minimize, keep=keep)
    found = [of_row(space, row, job) for row in search.run(job.global_batch, types)]
    count = count_splits(space, job.global_batch, types)
    relaxations: tuple[Relaxation[Forecast], ...] = ()
    if explain and not found and search.complete:
        relaxations = relaxed(evaluator, job, types) if count else divisible(evaluator, job, types)
    return Answer(
        choice=found[0] if found else None,
        alternatives=tuple(found[1:]),
        relaxations=relaxations,
        configurations=count,
        simulated=evaluator.simulated,
        complete=search.complete,
    )
