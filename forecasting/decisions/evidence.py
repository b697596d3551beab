"""How wrong a system's forecasts have been on other days: what an answer's intervals rest on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import pi, sqrt

import polars as pl

from models.choosing.ratios import Ratios, fewest, normal, widened
from warehouse.records import Backend
from warehouse.warehouse import Warehouse

HOURS_APART = 12.0
"""A run so long after the newest profile that a forecast rests on is of another day."""
ACROSS_DAYS = 0.113
"""Mean error with profiles of another day: srift's, after a change of the host
(lab/nearest-and-calibration.md)."""
WIDENED = 2.8
"""By how much errors grow from one day to another, where only those of the same day are known:
srift's 11.3 % over the 4.1 % of reference_ddp with profiles of the same day."""
_ELSEWHERE = frozenset({"held_out_host", "few_on_host"})
"""The splits of forecasts from steps of other hosts: this one has none, or few."""
_LEVEL = 0.1
"""An answer has the interval of this level on either side, unless --late asks for another."""


@dataclass(frozen=True)
class Errors:
    """What is known of a system's errors; `rank` orders systems: the least is trusted most."""

    ratios: Ratios
    rank: tuple[bool, float]


@dataclass(frozen=True)
class Evidence:
    """All past errors on one backend.

    Attributes:
        rows: of query time_ratios.
        late: the level that intervals are needed at.
        other_day: whether training is on another day than profiles, as whatever is recommended.
    """

    rows: pl.DataFrame
    late: float | None
    other_day: bool = True

    def errors(self, system: str, split: str, metric: str) -> Errors:
        """Return what past errors say of a forecast of a system, that far from what its fit saw.

        Those count of other days at this distance; else of other days at any distance; else those
        of the same day at this distance, widened; else a default, of a system that nobody judged.
        There have to be enough for an interval. Where training is on the day of the profiles, those
        of the same day count first, as they are. Of a host with few steps or none only
        errors of such forecasts tell; where there are too few, there are none, and no default.
        """
        mine = self.rows.filter(system=system, metric=metric)
        there = mine.filter(split=split)
        distance = split.replace("_", " ")
        known = [(there, distance)] + ([(mine, "any distance")] if split not in _ELSEWHERE else [])
        for is_other in (True, False) if self.other_day else (False, True):
            for rows, where in known:
                found = _values(rows, is_other)
                if len(found) >= self._needed:
                    return self._known(found, where, is_other)
        if split in _ELSEWHERE:
            ratios = Ratios(values=(), basis=f"no evidence: too few forecasts of {distance} judged")
            return Errors(ratios, (True, ratios.spread))
        basis = f"default: {ACROSS_DAYS:.1%} in the mean"
        return Errors(normal(ACROSS_DAYS * sqrt(pi / 2), basis), (True, ACROSS_DAYS))

    def _known(self, found: Sequence[float], where: str, is_other: bool) -> Errors:
        day = "other days" if is_other else "same day"
        if self.other_day and not is_other:
            ratios = widened(found, WIDENED, f"{where}, {day}, widened, n = {len(found)}")
        else:
            ratios = Ratios(values=tuple(found), basis=f"{where}, {day}, n = {len(found)}")
        return Errors(ratios, (False, ratios.spread))

    @property
    def _needed(self) -> int:
        return fewest(self.late or _LEVEL)


def read_evidence(
    warehouse: Warehouse, backend: Backend, late: float | None, known_by: datetime
) -> Evidence:
    """Read all past errors on a backend that were known at a time."""
    rows = warehouse.query("time_ratios", backend=backend, known_by=known_by.isoformat())
    return Evidence(rows, late)


def level(late: float | None) -> float:
    """Return the level of intervals."""
    return late or _LEVEL


def _values(rows: pl.DataFrame, is_other_day: bool) -> Sequence[float]:
    apart = pl.col("hours_apart") >= HOURS_APART
    return tuple(rows.filter(apart if is_other_day else ~apart)["ratio"].to_list())
