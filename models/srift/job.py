"""A job, its limits, and what a configuration is expected to take and cost for it (section 4.4)."""

from math import inf
from typing import Literal

from pydantic import Field

from models.srift.exploration import Limits, Row
from models.srift.performance import Configuration, Group
from models.srift.space import Options
from warehouse.records import Record

Objective = Literal["time", "cost"]

FORGIVEN = 1 + 1e-9
"""By how much a limit may be exceeded: what a forecast needs is enough for it as a limit."""


class Job(Record):
    """What is to be trained, and within which limits; None: no such limit.

    B_global, N, T_lim and $_lim of section 4.4; and what all nodes together may cost an hour.
    """

    global_batch: int = Field(ge=1)
    iterations: int = Field(ge=1)
    minimize: Objective
    deadline_s: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    usd_per_hour: float | None = Field(default=None, gt=0)

    @property
    def limits(self) -> Limits:
        """What one iteration may take and cost, and a second."""
        each, second = FORGIVEN / self.iterations, FORGIVEN / 3600
        return Limits(
            step_s=inf if self.deadline_s is None else self.deadline_s * each,
            step_usd=inf if self.budget_usd is None else self.budget_usd * each,
            usd_per_s=inf if self.usd_per_hour is None else self.usd_per_hour * second,
        )


class Forecast(Record):
    """What a configuration is expected to take and cost, for one iteration and the whole job."""

    configuration: Configuration
    step_time_s: float
    time_s: float
    cost_usd: float

    @property
    def usd_per_hour(self) -> float:
        """Price of all nodes."""
        return 3600 * self.cost_usd / self.time_s


def forecast(space: Options, row: Row, job: Job) -> Forecast:
    """Return a row of the space as a forecast of the job."""
    groups = [
        Group(
            node_type=space.offers[space.offer[option]].node_type,
            market=space.offers[space.offer[option]].market,
            count=int(space.count[option]),
            batch_size=int(space.batch_size[option]),
        )
        for option in row.options
    ]
    return Forecast(
        configuration=Configuration(groups=tuple(groups)),
        step_time_s=row.step_s,
        time_s=row.step_s * job.iterations,
        cost_usd=row.step_usd * job.iterations,
    )
