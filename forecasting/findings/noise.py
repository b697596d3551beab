"""How far means of a few rounds are from the truth.

If rounds differ by chance alone, the mean of k of them is off by √(2/(πk)) standard deviations in
the mean, and two of them differ by 2/√π. So the mean of two is off by half of what two differ by,
and the mean of k by √(2/k) times as much.
"""

from collections.abc import Iterable
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean

import polars as pl

from profilers.probes import PROBES
from studies import run_tables
from studies.rounds import Round
from warehouse.records import BadInput

VISITS = {"visit": pl.Int64, "scenario": pl.String, "value": pl.Float64}
"""What a scenario took in a visit, in any unit."""
FLOORS = {
    "scenario": pl.String,
    "visits": pl.Int64,
    "pairs": pl.Int64,
    "floor_percent": pl.Float64,
}
"""The floor of a scenario."""
Values = dict[int, float]
"""What a scenario took, by visit."""


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
        and (value := _mean(run_tables.table(landing, run, "sample"), probe.metric.name))
        is not None
    ]
    return pl.DataFrame(rows, schema=VISITS, orient="row")


def floors(visits: pl.DataFrame, rounds: int = 2) -> pl.DataFrame:
    """Return `FLOORS`: a row for each scenario that was measured in two visits or more.

    Args:
        visits: `VISITS`.
        rounds: of how many the mean is a judge.

    Raises:
        BadInput: a value is not positive, or is the second of its visit.
    """
    rows = [
        (name, len(values), len(_pairs(values)), _floor(values) * sqrt(2 / rounds))
        for name, values in sorted(_checked(visits).items())
        if len(values) > 1
    ]
    return pl.DataFrame(rows, schema=FLOORS, orient="row")


def _floor(values: Values) -> float:
    """Return half of what two visits differ by in the mean, as percent of their mean."""
    return 50 * fmean(abs(value - other) / ((value + other) / 2) for value, other in _pairs(values))


def _pairs(values: Values) -> list[tuple[float, float]]:
    return list(combinations(values.values(), 2))


def _checked(visits: pl.DataFrame) -> dict[str, Values]:
    by_scenario: dict[str, Values] = {}
    for visit, scenario, value in visits.select(*VISITS).iter_rows():
        of = by_scenario.setdefault(scenario, {})
        if visit in of:
            raise BadInput(f"{scenario}: expected one value of visit {visit}, found two")
        if not value > 0:
            raise BadInput(f"{scenario}, visit {visit}: expected more than 0, found {value!r}")
        of[visit] = value
    return by_scenario


def _mean(sample: pl.DataFrame, metric: str) -> float | None:
    return _mean_of(sample.filter(pl.col("metric") == metric)["value"])


def _mean_of(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_list()
    return fmean(known) if known else None
