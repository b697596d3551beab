"""Which instance to rent, for time or cost within limits, and why (sections IV-A, IV-D and V)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import polars as pl
from pydantic import Field

from models.choice.limits import (
    LIMITS,
    Limits,
    Outcome,
    cheapest,
    exceeded_limits,
    fastest,
    keeps_limit,
)
from warehouse.records import BadInput, Record

# The paper's four scenarios by name: what is minimised, within which limits (section V).


_SAID = {"deadline_s": "seconds", "budget_usd": "US dollars", "usd_per_hour": "US dollars per hour"}


@dataclass(frozen=True)
class Objective:
    """Minimise `value(time_s, cost_usd)` of an epoch, within limits."""

    name: str
    value: Callable[[float, float], float]
    limits: Limits = field(default_factory=Limits)

    def obstacle(self, outcome: Outcome) -> str | None:
        """Return which limits are exceeded, None if none is."""
        values = dict(zip(LIMITS, outcome, strict=True))
        return (
            " and ".join(
                f"{values[limit]:.4g} {_SAID[limit]}, above {self.limits.of(limit):.4g}"
                for limit in exceeded_limits(self.limits, outcome)
            )
            or None
        )


def hourly_budget(usd_per_hour: float) -> Objective:
    """Return the paper's first scenario: the least time for at most so much an hour (Fig. 9).

    The time is that of an epoch, as several devices take more samples in a step than one does.
    """
    return Objective("hourly_budget", fastest, Limits(usd_per_hour=usd_per_hour))


def total_budget(usd: float) -> Objective:
    """Return the paper's second scenario: the least time for at most so much in all (Fig. 10)."""
    return Objective("total_budget", fastest, Limits(budget_usd=usd))


def least_cost() -> Objective:
    """Return the paper's third scenario: the least cost, however long it takes (Fig. 11)."""
    return Objective("cheapest", cheapest)


def least_cost_at_market_prices() -> Objective:
    """Return the paper's fourth scenario, as the third; with `offers.market_prices` (Fig. 12)."""
    return Objective("market_prices", cheapest)


def scenarios(usd_per_hour: float = 3.42, usd: float = 10.0) -> Mapping[str, Objective]:
    """Return the paper's four scenarios by name.

    Args:
        usd_per_hour: hourly budget; the paper's is 3 dollars, and lets its two dearest offers
            exceed it, which its footnote calls a budget of 3.42.
        usd: total budget.
    """
    objectives = (
        hourly_budget(usd_per_hour),
        total_budget(usd),
        least_cost(),
        least_cost_at_market_prices(),
    )
    return {objective.name: objective for objective in objectives}


_GIVEN = "instance node_type devices link_mbps usd_per_hour time_s cost_usd unseen".split()


@dataclass(frozen=True)
class InstanceCandidate:
    """An offer, what an epoch takes and costs there, and how it stands to the objective.

    `objective` is its value, None where time is not known; `obstacle` says why it cannot be chosen,
    None: it can.
    """

    instance: str
    node_type: str
    devices: int
    link_mbps: float | None
    usd_per_hour: float
    time_s: float | None
    cost_usd: float | None
    objective: float | None
    obstacle: str | None

    @property
    def place(self) -> tuple[str, int, float | None]:
        """Return what is measured where: node type, devices and link."""
        return self.node_type, self.devices, self.link_mbps

    @property
    def usd_per_device_hour(self) -> float:
        """Return the price of one device, to a millionth of a cent: k of n cost as much each."""
        return round(self.usd_per_hour / self.devices, 8)


@dataclass(frozen=True)
class InstanceRanking:
    """What to rent: `ranking` holds all candidates, best first, those with an obstacle last.

    `strategies` are what two rules of thumb would take: `cheapest` the lowest price an hour,
    `most powerful` the dearest device and as many of it as there are. Both look at prices and the
    hourly limit alone; None where nothing is within it.
    """

    objective: Objective
    ranking: tuple[InstanceCandidate, ...]
    strategies: Mapping[str, InstanceCandidate | None]

    @property
    def feasible(self) -> tuple[InstanceCandidate, ...]:
        """The candidates without an obstacle, best first."""
        return tuple(candidate for candidate in self.ranking if candidate.obstacle is None)

    @property
    def choice(self) -> InstanceCandidate | None:
        """Return the best candidate, None where each has an obstacle."""
        return next(iter(self.feasible), None)


def recommend(priced: pl.DataFrame, objective: Objective) -> InstanceRanking:
    """Choose the candidate with the least value of the objective within its limits.

    A candidate whose time is NULL, because of an operation nobody measured, cannot be chosen; its
    obstacle names the operation. Of equals the cheaper one is taken.

    Args:
        priced: `models.ceer.recommendation.price_epochs` of predicted epochs, or of measured ones.
        objective: what is minimised.

    Raises:
        BadInput: there are no candidates.

    Source: Hafeez, Gandhi, Ceer, section IV-D.
    """
    if priced.is_empty():
        raise BadInput("recommendation: expected candidates, found none; predict and price some")
    unseen = pl.col("unseen") if "unseen" in priced.columns else pl.lit([], pl.List(pl.String))
    link = pl.col("link_mbps") if "link_mbps" in priced.columns else pl.lit(None, pl.Float64)
    rows = priced.with_columns(link.alias("link_mbps"), unseen.alias("unseen"))
    given = rows.select(*_GIVEN).iter_rows(named=True)
    return rank_candidates([candidate(objective, **row) for row in given], objective)


def rank_candidates(
    candidates: Sequence[InstanceCandidate], objective: Objective
) -> InstanceRanking:
    """Return candidates in the order of the objective, with what rules of thumb would take."""
    hourly = objective.limits.usd_per_hour
    within = [candidate for candidate in candidates if keeps_limit(hourly, candidate.usd_per_hour)]
    return InstanceRanking(
        objective,
        tuple(sorted(candidates, key=_rank)),
        {
            "cheapest": min(
                within,
                key=lambda candidate: (candidate.usd_per_hour, candidate.instance),
                default=None,
            ),
            "most powerful": max(
                within,
                key=lambda candidate: (candidate.usd_per_device_hour, candidate.devices),
                default=None,
            ),
        },
    )


def regret(
    chosen: InstanceCandidate | None, measured: pl.DataFrame, objective: Objective
) -> float | None:
    """Return by which share the measured value of a choice is above that of the best one.

    Args:
        chosen: what was recommended, None: nothing was.
        measured: `models.ceer.recommendation.price_epochs` of measured epochs.
        objective: what was to be minimised.

    Returns:
        0 for the best choice; infinity where the choice turns out to exceed a limit, or nothing was
        chosen though something could have been; None where the choice was not measured.
    """
    ranking = recommend(measured, objective)
    if chosen is None:
        return 0.0 if ranking.choice is None else inf
    same = [candidate for candidate in ranking.ranking if candidate.place == chosen.place]
    if not same or same[0].objective is None:
        return None
    if ranking.choice is None or ranking.choice.objective is None or same[0].obstacle is not None:
        return inf
    best = ranking.choice.objective
    return same[0].objective / best - 1 if best > 0 else 0.0


def regrets(recommended: InstanceRanking, measured: pl.DataFrame) -> Mapping[str, float | None]:
    """Return the regret of the choice (`ceer`) and of each strategy beside it."""
    choices = {"ceer": recommended.choice, **recommended.strategies}
    return {
        name: regret(choice, measured, recommended.objective) for name, choice in choices.items()
    }


def candidate(
    objective: Objective,
    *,
    instance: str,
    node_type: str,
    devices: int,
    link_mbps: float | None,
    usd_per_hour: float,
    time_s: float | None,
    cost_usd: float | None,
    unseen: Sequence[str],
) -> InstanceCandidate:
    """Return an offer as it stands to an objective.

    Args:
        objective: what is minimised, within which limits.
        instance: what is rented.
        node_type: of its devices.
        devices: as many as are used.
        link_mbps: speed of the links between them, None: unshaped.
        usd_per_hour: price of all of them.
        time_s: of the job, None: not known.
        cost_usd: of the job, None: not known.
        unseen: types of operations that nobody measured, because of which time is not known.
    """
    value: float | None = None
    obstacle: str | None = f"nobody measured {', '.join(unseen) or 'a step'} there"
    if time_s is not None and cost_usd is not None:
        value = objective.value(time_s, cost_usd)
        obstacle = objective.obstacle(Outcome(time_s, cost_usd, usd_per_hour))
    place = (instance, node_type, devices, link_mbps, usd_per_hour)
    return InstanceCandidate(*place, time_s, cost_usd, objective=value, obstacle=obstacle)


def _rank(candidate: InstanceCandidate) -> tuple[bool, float, float, str, int, float]:
    value = inf if candidate.objective is None else candidate.objective
    return (
        *(candidate.obstacle is not None, value, candidate.usd_per_hour),
        *(candidate.node_type, candidate.devices, candidate.link_mbps or inf),
    )


# Time and cost of an epoch from the time of a step (section IV-A).


IMAGENET_SAMPLES = 1_200_000
"""D of the paper (section V)."""


def epochs(predicted: pl.DataFrame, samples: int = IMAGENET_SAMPLES) -> pl.DataFrame:
    """Return predicted steps with time_s, time_low_s and time_high_s of one pass over `samples`.

    An epoch has D / (k B) steps of k devices that take a batch of B each.

    Args:
        predicted: `models.ceer.predictor.PREDICTED`.
        samples: D.

    Raises:
        BadInput: no samples.

    Source: Hafeez, Gandhi, Ceer, equation 2.
    """
    if samples < 1:
        raise BadInput(f"samples of an epoch: expected 1 or more, found {samples}")
    steps = samples / (pl.col("devices") * pl.col("batch_size"))
    return predicted.with_columns(
        (pl.col("step_s") * steps).alias("time_s"),
        (pl.col("low_s") * steps).alias("time_low_s"),
        (pl.col("high_s") * steps).alias("time_high_s"),
    )


# What can be rented, and what k of its n devices cost (section V).


class Instance(Record):
    """A machine with `devices` of one node type, and its price."""

    name: str
    node_type: str
    devices: int = Field(ge=1)
    usd_per_hour: float = Field(ge=0)


class DeviceOffer(Record):
    """`devices` of a node type for a price; `instance` is what is rented.

    `instance_devices` is what the instance has: where that is more, the price is pro rata.
    """

    instance: str
    instance_devices: int
    node_type: str
    devices: int
    usd_per_hour: float


def pro_rata(instances: Sequence[Instance]) -> tuple[DeviceOffer, ...]:
    """Return one offer for each node type and number of devices up to the most there are.

    The cheapest instance with exactly k devices is offered; where there is none, k of n devices of
    the larger instance that is cheapest per device, for k/n of its price.

    Source: Hafeez, Gandhi, Ceer, section V.
    """
    offers = []
    for node_type in sorted({instance.node_type for instance in instances}):
        of_type = [instance for instance in instances if instance.node_type == node_type]
        for devices in range(1, max(instance.devices for instance in of_type) + 1):
            exact = [instance for instance in of_type if instance.devices == devices]
            larger = [instance for instance in of_type if instance.devices > devices]
            best = min(
                exact or larger,
                key=lambda instance: (instance.usd_per_hour / instance.devices, instance.name),
            )
            offers.append(
                DeviceOffer(
                    instance=best.name,
                    instance_devices=best.devices,
                    node_type=node_type,
                    devices=devices,
                    usd_per_hour=price_of_devices(best.usd_per_hour, devices, best.devices),
                )
            )
    return tuple(offers)


def price_of_devices(usd_per_hour: float, devices: int, of: int) -> float:
    """Return the price of some of an instance's devices: k/n of its own.

    Source: Hafeez, Gandhi, Ceer, section V.
    """
    return usd_per_hour * devices / of


def market_prices(usd_per_hour: Mapping[str, float], devices: int) -> tuple[DeviceOffer, ...]:
    """Return offers of 1 to `devices` devices of each node type, k of them for k times the price.

    Args:
        usd_per_hour: price of one device by node type.
        devices: the most that are offered.

    Source: Hafeez, Gandhi, Ceer, section V, budget minimisation with commodity prices.
    """
    single = [
        (name, price, k) for name, price in usd_per_hour.items() for k in range(1, devices + 1)
    ]
    return tuple(
        DeviceOffer(
            instance=node_type,
            instance_devices=k,
            node_type=node_type,
            devices=k,
            usd_per_hour=price * k,
        )
        for node_type, price, k in single
    )


def price_epochs(epochs: pl.DataFrame, offers: Sequence[DeviceOffer]) -> pl.DataFrame:
    """Return epochs that are on offer, with instance, usd_per_hour and cost_usd, its low and high.

    Args:
        epochs: node_type, devices and time_s, seconds; where there are time_low_s and time_high_s,
            cost_low_usd and cost_high_usd follow from them.
        offers: what can be rented.

    Raises:
        BadInput: none of the epochs is on offer.
    """
    table = pl.DataFrame([offer.model_dump() for offer in offers], schema=_OFFERED)
    joined = epochs.join(table, on=["node_type", "devices"])
    if joined.is_empty():
        listed = ", ".join(sorted({f"{offer.devices} x {offer.node_type}" for offer in offers}))
        raise BadInput(
            f"offers: expected prices of the predicted node types, found {listed or 'none'}; add a "
            f"price of {', '.join(epochs['node_type'].unique().sort())}"
        )
    hourly = pl.col("usd_per_hour") / 3600
    costs = {"time_s": "cost_usd", "time_low_s": "cost_low_usd", "time_high_s": "cost_high_usd"}
    return joined.with_columns(
        (pl.col(time) * hourly).alias(cost)
        for time, cost in costs.items()
        if time in joined.columns
    )


_OFFERED = {
    "instance": pl.String,
    "instance_devices": pl.Int64,
    "node_type": pl.String,
    "devices": pl.Int64,
    "usd_per_hour": pl.Float64,
}
