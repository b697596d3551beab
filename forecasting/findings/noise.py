"""How far means of a few rounds are from the truth, and how much of that anchors take away.

If rounds differ by chance alone, the mean of k of them is off by √(2/(πk)) standard deviations in
the mean, and two of them differ by 2/√π. So the mean of two is off by half of what two differ by,
and the mean of k by √(2/k) times as much.

A host is slower or faster as a whole from one visit to the next. What anchors took in a visit, as
part of what each takes in the mean, is how slow it was; other figures are divided by that.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean, geometric_mean

import polars as pl

from profilers.probes import PROBES
from studies import landed
from studies.rounds import Round
from warehouse.records import BadInput

VISITS = {"visit": pl.Int64, "scenario": pl.String, "value": pl.Float64}
"""What a scenario took in a visit, in any unit."""
FLOORS = {
    "scenario": pl.String,
    "is_anchor": pl.Boolean,
    "visits": pl.Int64,
    "pairs": pl.Int64,
    "floor_percent": pl.Float64,
    "anchored_visits": pl.Int64,
    "before_percent": pl.Float64,
    "anchored_percent": pl.Float64,
}
"""The floor of a scenario; where anchors are known in two visits or more: in these, and divided."""
Values = dict[int, float]
"""What a scenario took, by visit."""


@dataclass(frozen=True)
class Floor:
    """Floors of several scenarios, percent; each counts as much as any other.

    Attributes:
        n: scenarios that were measured twice or more.
        floor: the mean over these; None if there is none.
        anchored_n: those of them that anchors were measured beside, in two visits or more.
        before, after: the mean over those, as measured in these visits, and divided by anchors.
    """

    n: int
    floor: float | None
    anchored_n: int
    before: float | None
    after: float | None

    @property
    def taken_away(self) -> float | None:
        """Which part of the floor anchors take away; negative: they add to it."""
        if self.before is None or self.after is None or self.before == 0:
            return None
        return 1 - self.after / self.before


def visits_of(rounds: Iterable[Round], landing: Path) -> pl.DataFrame:
    """Return `VISITS` of all that rounds of a study measured anew of whole scenarios.

    Args:
        rounds: of one backend and host.
        landing: where their runs landed.
    """
    rows = [
        (round_.repeat, need.scenario.label, value)
        for round_ in rounds
        for name, probe in PROBES.items()
        if probe.metric is not None
        for need, run in round_.runs_of(name).items()
        # A round may go on with a run of an earlier one.
        if run.repeat == round_.repeat
        and (value := _mean(landed.table(landing, run, "sample"), probe.metric.name)) is not None
    ]
    return pl.DataFrame(rows, schema=VISITS, orient="row")


def floors(visits: pl.DataFrame, anchors: Set[str], rounds: int = 2) -> pl.DataFrame:
    """Return `FLOORS`: a row for each scenario that was measured in two visits or more.

    Args:
        visits: `VISITS`.
        anchors: the scenarios that tell how fast the host is. An anchor is divided by the others.
        rounds: of how many the mean is a judge.

    Raises:
        BadInput: a value is not positive, or is the second of its visit.
    """
    by_scenario = _checked(visits)
    rows = [
        (name, name in anchors, len(values), len(_pairs(values)), *_both(values, others))
        for name, values in sorted(by_scenario.items())
        if len(values) > 1
        for others in (
            [by_scenario[one] for one in sorted(anchors - {name}) if one in by_scenario],
        )
    ]
    percents = pl.col("floor_percent", "before_percent", "anchored_percent")
    return pl.DataFrame(rows, schema=FLOORS, orient="row").with_columns(percents * sqrt(2 / rounds))


def over_all(rows: pl.DataFrame) -> Floor:
    """Return the means over rows of `floors`."""
    anchored = rows.filter(pl.col("anchored_percent").is_not_null())
    return Floor(
        rows.height,
        _mean_of(rows["floor_percent"]),
        anchored.height,
        _mean_of(anchored["before_percent"]),
        _mean_of(anchored["anchored_percent"]),
    )


def _both(values: Values, anchors: list[Values]) -> tuple[float, int, float | None, float | None]:
    """Return the floor of two; in how many visits anchors are known, and both floors in these."""
    levels = _levels(anchors)
    known = {visit: value for visit, value in values.items() if visit in levels}
    if len(known) < 2:
        return _floor(values), len(known), None, None
    divided = {visit: value / levels[visit] for visit, value in known.items()}
    return _floor(values), len(known), _floor(known), _floor(divided)


def _levels(anchors: list[Values]) -> Values:
    """Return how slow the host was in each visit that measured all anchors; 1: as in the mean."""
    if not anchors:
        return {}
    shared = sorted(set.intersection(*(set(one) for one in anchors)))
    means = [fmean(one[visit] for visit in shared) for one in anchors] if shared else []
    return {
        visit: geometric_mean(one[visit] / mean for one, mean in zip(anchors, means, strict=True))
        for visit in shared
    }


def _floor(values: Values) -> float:
    """Return half of what two visits differ by in the mean, as percent of their mean."""
    return 50 * fmean(abs(one - other) / ((one + other) / 2) for one, other in _pairs(values))


def _pairs(values: Values) -> list[tuple[float, float]]:
    return list(combinations(values.values(), 2))


def _checked(visits: pl.DataFrame) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for visit, scenario, value in visits.select(*VISITS).iter_rows():
        of = found.setdefault(scenario, {})
        if visit in of:
            raise BadInput(f"{scenario}: expected one value of visit {visit}, found two")
        if not value > 0:
            raise BadInput(f"{scenario}, visit {visit}: expected more than 0, found {value!r}")
        of[visit] = value
    return found


def _mean(sample: pl.DataFrame, metric: str) -> float | None:
    return _mean_of(sample.filter(pl.col("metric") == metric)["value"])


def _mean_of(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_list()
    return fmean(known) if known else None
