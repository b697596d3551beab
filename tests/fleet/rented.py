"""Made-up histories of a rented type, each visit another machine: alarms, false and late."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import log

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fleet.drift import confirmed, judge
from profilers.watch import probe as watch

Floats = NDArray[np.floating]
Draw = Callable[[np.random.Generator, int], Floats]
MANY = 2000
PROBE_SD = 0.03
"""Standard deviation of probes of one machine."""


def _alike(sd: float) -> Draw:
    return lambda chance, count: sd * chance.standard_normal(count)


def _slow_in(part: float) -> Draw:
    return lambda chance, count: np.where(chance.random(count) < part, log(1.28), 0.0)


MACHINES: Mapping[str, Draw] = {
    "differ by 17 % (normal)": _alike(log(1.28) / 2**0.5),
    "one half 28 % slower": _slow_in(0.5),
}
"""How slow machines of a type are: logarithms."""


@dataclass(frozen=True)
class Rates:
    """Parts of histories in which the next visit raises an alarm, and a second one confirms it."""

    alarms: float
    confirmed: float


def readings_of(slowness: Floats, first: int = 0, *, are_one: bool = False) -> pl.DataFrame:
    """Return readings of the time of a step, each of a machine of its own unless all `are_one`."""
    days = range(first, first + len(slowness))
    began = datetime(2026, 1, 1, 3, tzinfo=UTC)
    return pl.DataFrame(
        {
            "run_id": [f"probe-{day}" for day in days],
            "started_at": [began + timedelta(days=day) for day in days],
            "boot": [f"boot-{day}" for day in days],
            "machine": ["machine" if are_one else f"machine-{day}" for day in days],
            "metric": watch.STEP_TIME,
            "value": np.exp(slowness),
            "slowness": slowness,
            "host": pl.Series([None] * len(slowness), dtype=pl.Float64),
            "paced": False,
            "noise": 0.01,
        }
    )


def rates(
    draw: Draw, visits: int, slower: float = 1.0, many: int = MANY, *, are_one: bool = False
) -> Rates:
    """Return how often a visit raises an alarm, by many histories.

    Args:
        draw: how slow machines are.
        visits: before it.
        slower: how many times as slow all machines have been in the last four visits, this one
            included. The visit that confirms is one more.
        many: histories.
        are_one: whether they are judged as starts of one machine.
    """
    chance = np.random.default_rng(0)
    alarms = same = 0
    for _ in range(many):
        slowness = draw(chance, visits + 2) + PROBE_SD * chance.standard_normal(visits + 2)
        slowness[visits - 3 :] += log(slower)
        history = readings_of(slowness[:visits], are_one=are_one)
        first, second = (
            judge(history, readings_of(slowness[day : day + 1], day, are_one=are_one))
            for day in (visits, visits + 1)
        )
        alarms += first[0].alarm
        same += bool(confirmed(first, second))
    return Rates(alarms / many, same / many)
