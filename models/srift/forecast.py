"""What a configuration is expected to take and cost for a job (section 4.4)."""

from collections.abc import Sequence

from models.choosing.limits import Job, Outcome
from models.choosing.offers import Offer
from models.srift.exploration import Row
from models.srift.iteration import simulate
from models.srift.performance import Configuration, Group, Performance
from models.srift.space import Options
from warehouse.records import Record


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

    @property
    def outcome(self) -> Outcome:
        """What is expected of the job."""
        return Outcome(self.time_s, self.cost_usd, self.usd_per_hour)


def of_row(space: Options, row: Row, job: Job) -> Forecast:
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


def forecast(
    performance: Performance, offers: Sequence[Offer], configuration: Configuration, job: Job
) -> Forecast:
    """Return what a configuration of these offers is expected to take and cost for a job.

    Raises:
        BadInput: as `iteration.simulate`.
    """
    step_time_s = simulate(performance, configuration).step_time_s
    time_s = step_time_s * job.iterations
    return Forecast(
        configuration=configuration,
        step_time_s=step_time_s,
        time_s=time_s,
        cost_usd=time_s * usd_per_hour(offers, configuration) / 3600,
    )


def usd_per_hour(offers: Sequence[Offer], configuration: Configuration) -> float:
    """Return what all nodes of a configuration of these offers cost."""
    prices = {(one.node_type, one.market): one.usd_per_hour for one in offers}
    return sum(one.count * prices[one.node_type, one.market] for one in configuration.groups)
