"""Which instance to rent, what it is better than, and why (sections IV-D and V)."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import polars as pl

from models.ceer.objectives import Objective
from warehouse.records import BadInput

_GIVEN = "instance node_type devices link_mbps usd_per_hour time_s cost_usd".split()


@dataclass(frozen=True)
class Candidate:
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
class Recommended:
    """What to rent: `ranking` holds all candidates, best first, those with an obstacle last.

    `strategies` are what two rules of thumb would take: `cheapest` the lowest price an hour,
    `most powerful` the dearest device and as many of it as there are. Both look at prices and the
    hourly limit alone; None where nothing is within it.
    """

    objective: Objective
    ranking: tuple[Candidate, ...]
    strategies: Mapping[str, Candidate | None]

    @property
    def choice(self) -> Candidate | None:
        """Return the best candidate, None where each has an obstacle."""
        best = self.ranking[0]
        return None if best.obstacle else best


def recommend(priced: pl.DataFrame, objective: Objective) -> Recommended:
    """Choose the candidate with the least value of the objective within its limits.

    A candidate whose time is NULL, because of an operation nobody measured, cannot be chosen; its
    obstacle names the operation. Of equals the cheaper one is taken.

    Args:
        priced: `models.ceer.offers.priced` of predicted epochs, or of measured ones.
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
    candidates = [_candidate(row, objective) for row in rows.iter_rows(named=True)]
    within = [one for one in candidates if _within(one, objective)]
    return Recommended(
        objective,
        tuple(sorted(candidates, key=_rank)),
        {
            "cheapest": min(within, key=lambda one: (one.usd_per_hour, one.instance), default=None),
            "most powerful": max(
                within, key=lambda one: (one.usd_per_device_hour, one.devices), default=None
            ),
        },
    )


def regret(chosen: Candidate | None, measured: pl.DataFrame, objective: Objective) -> float | None:
    """Return by which share the measured value of a choice is above that of the best one.

    Args:
        chosen: what was recommended, None: nothing was.
        measured: `models.ceer.offers.priced` of measured epochs.
        objective: what was to be minimised.

    Returns:
        0 for the best choice; infinity where the choice turns out to exceed a limit, or nothing was
        chosen though something could have been; None where the choice was not measured.
    """
    found = recommend(measured, objective)
    if chosen is None:
        return 0.0 if found.choice is None else inf
    same = [one for one in found.ranking if one.place == chosen.place]
    if not same or same[0].objective is None:
        return None
    if found.choice is None or found.choice.objective is None or same[0].obstacle is not None:
        return inf
    best = found.choice.objective
    return same[0].objective / best - 1 if best > 0 else 0.0


def regrets(recommended: Recommended, measured: pl.DataFrame) -> Mapping[str, float | None]:
    """Return the regret of the choice (`ceer`) and of each strategy beside it."""
    choices = {"ceer": recommended.choice, **recommended.strategies}
    return {
        name: regret(choice, measured, recommended.objective) for name, choice in choices.items()
    }


def _candidate(row: Mapping[str, Any], objective: Objective) -> Candidate:
    value: float | None = None
    obstacle: str | None = f"nobody measured {', '.join(row['unseen']) or 'a step'} there"
    if row["time_s"] is not None:
        value = objective.value(row["time_s"], row["cost_usd"])
        obstacle = objective.obstacle(row["time_s"], row["cost_usd"], row["usd_per_hour"])
    return Candidate(**{name: row[name] for name in _GIVEN}, objective=value, obstacle=obstacle)


def _within(one: Candidate, objective: Objective) -> bool:
    limit = objective.max_usd_per_hour
    return limit is None or one.usd_per_hour <= limit


def _rank(one: Candidate) -> tuple[bool, float, float, str, int, float]:
    value = inf if one.objective is None else one.objective
    return (
        *(one.obstacle is not None, value, one.usd_per_hour),
        *(one.node_type, one.devices, one.link_mbps or inf),
    )
