"""What more money buys: the configurations than which none is both faster and cheaper."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from models.choosing import pareto as choosing
from models.choosing.limits import Job
from models.choosing.offers import Offer
from models.srift.evaluation import Evaluator
from models.srift.exploration import Bools, Exploration, Floats, Row, StepLimits, divided
from models.srift.forecast import Forecast, of_row
from models.srift.performance import Performance
from models.srift.space import exhaustible, options


def pareto_front(
    performance: Performance, offers: Sequence[Offer], job: Job, max_types: int | None = None
) -> tuple[Forecast, ...]:
    """Return the Pareto front of time against cost within the job's limits, fastest first.

    Of configurations with equal time and cost it has the one of fewest offers.

    Raises:
        BadInput: as `optimizer.optimize`.
    """
    space = options(performance, offers, job.global_batch)
    types = exhaustible(space, job.global_batch, max_types)
    front = Front(Evaluator(performance, space), StepLimits.of(job, job.iterations), lambda: False)
    front.explore(job.global_batch, types)
    return tuple(of_row(space, row, job) for row in front.rows)


@dataclass
class Front(Exploration):
    """The Pareto front of rows, in `rows`: times rise, costs fall."""

    rows: list[Row] = field(default_factory=list)

    def matters(self, bound_s: Floats, bound_usd: Floats) -> Bools:
        """Tell which rows are not dominated by one of the front, even if they meet their bounds."""
        if not self.rows:
            return np.ones(len(bound_s), dtype=bool)
        times = np.array([row.step_s for row in self.rows])
        costs = np.array([inf, *(row.step_usd for row in self.rows)])
        better: Bools = bound_usd < costs[np.searchsorted(times, bound_s, side="right")]
        return better

    def priority(self, bound_s: Floats, bound_usd: Floats) -> Floats:
        """Return the product of both, which is small in the middle of the front."""
        return bound_s * bound_usd

    def at_most_s(self, usd_per_s: Floats) -> Floats:
        """Return when rows begin to be dominated."""
        dominated_s = [
            np.maximum(row.step_s, divided(row.step_usd, usd_per_s)) for row in self.rows
        ]
        earliest_s: Floats = np.min([np.full(len(usd_per_s), inf), *dominated_s], axis=0)
        return earliest_s

    def take(self, rows: list[Row]) -> None:
        """Merge rows into the front."""
        self.rows = choosing.pareto_front(
            [*self.rows, *rows], key=lambda row: (row.step_s, row.step_usd, len(row.options))
        )
