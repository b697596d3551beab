"""Exhaustive search in bounds: rows that cannot matter any more are never simulated."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, isfinite, isinf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.choosing.limits import FORGIVEN, Limits
from models.srift.evaluation import Evaluator
from models.srift.space import Options, splits

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHORTENED = 1.0 - 1e-9
"""Bounds are shortened by this, so that rounding cannot lift them above what they bound."""
_FIRST_BATCH, _LARGEST_BATCH = 16, 256


class StepLimits(NamedTuple):
    """What one iteration may take and cost at most, and all nodes together for a second."""

    step_s: float = inf
    step_usd: float = inf
    usd_per_s: float = inf

    @classmethod
    def of(cls, limits: Limits, iterations: int) -> "StepLimits":
        """Return a job's limits for each of its iterations; infinity where there is none."""
        each, second = FORGIVEN / iterations, FORGIVEN / 3600
        return cls(
            step_s=inf if limits.deadline_s is None else limits.deadline_s * each,
            step_usd=inf if limits.budget_usd is None else limits.budget_usd * each,
            usd_per_s=inf if limits.usd_per_hour is None else limits.usd_per_hour * second,
        )


class Row(NamedTuple):
    """A way to divide the global batch, with its step time and the price of its nodes."""

    options: tuple[int, ...]
    step_s: float
    usd_per_s: float

    @property
    def step_usd(self) -> float:
        """Cost of one iteration."""
        return self.step_s * self.usd_per_s


@dataclass
class Exploration(ABC):
    """Goes through all rows of a space within limits; subclasses say which still matter.

    `stop` is asked now and then and ends it early; `complete` says whether it was not.
    """

    evaluator: Evaluator
    limits: StepLimits
    stop: Callable[[], bool]
    complete: bool = True

    @abstractmethod
    def matters(self, bound_s: Floats, bound_usd: Floats) -> Bools:
        """Tell which rows, whose time and cost are not below the bounds, can still be wanted."""

    @abstractmethod
    def priority(self, bound_s: Floats, bound_usd: Floats) -> Floats:
        """Return what to simulate first: the smallest."""

    @abstractmethod
    def at_most_s(self, usd_per_s: Floats) -> Floats:
        """Return step times above which rows of that price are not wanted."""

    @abstractmethod
    def take(self, rows: list[Row]) -> None:
        """Look at simulated rows within limits."""

    def explore(self, global_batch: int, max_types: int) -> None:
        """Take every row of at most `max_types` offers that matters."""
        for types in range(1, max_types + 1):
            parts = [part for part in self._promising(global_batch, types) if len(part)]
            if parts:
                self._simulate_all(np.concatenate(parts))

    def _promising(self, global_batch: int, types: int) -> Iterator[Ints]:
        """Yield rows of that many offers that computation alone does not rule out."""
        space = self.evaluator.space
        bound = Completion.of(space, global_batch)
        each = np.arange(len(space.offer))[:, None]
        allowed = self._affordable(each) & self._within(*bound.of_rows(space, each))
        for ways in splits(space, global_batch, types, allowed):
            if self._stopped():
                return
            yield ways[self._affordable(ways) & self._within(*bound.of_rows(space, ways))]

    def _simulate_all(self, rows: Ints) -> None:
        usd_per_s = self.evaluator.usd_per_s(rows)
        bound_s = self.evaluator.lower_bound_s(rows) * SHORTENED
        bound_usd = bound_s * usd_per_s
        order = np.argsort(self.priority(bound_s, bound_usd), kind="stable")
        size = _FIRST_BATCH
        while not self._stopped():
            order = order[self._within(bound_s[order], bound_usd[order])]
            if not len(order):
                return
            self._simulate(rows[order[:size]], usd_per_s[order[:size]])
            order, size = order[size:], min(2 * size, _LARGEST_BATCH)

    def _simulate(self, rows: Ints, usd_per_s: Floats) -> None:
        limits = self.limits
        affordable_s = np.minimum(limits.step_s, divided(limits.step_usd, usd_per_s))
        at_most_s = np.minimum(affordable_s, self.at_most_s(usd_per_s)) / SHORTENED
        times_s = self.evaluator.step_s(rows, at_most_s)
        columns = (rows.tolist(), times_s.tolist(), usd_per_s.tolist())
        found = [Row(tuple(row), *rest) for row, *rest in zip(*columns, strict=True)]
        self.take(
            [
                row
                for row in found
                if isfinite(row.step_s)
                and row.step_s <= limits.step_s
                and row.step_usd <= limits.step_usd
            ]
        )

    def _affordable(self, rows: Ints) -> Bools:
        """Tell which rows cost no more a second than they may, whatever completes them."""
        if isinf(self.limits.usd_per_s):
            return np.ones(len(rows), dtype=np.bool_)
        cheap: Bools = self.evaluator.usd_per_s(rows) <= self.limits.usd_per_s
        return cheap

    def _within(self, bound_s: Floats, bound_usd: Floats) -> Bools:
        inside = (bound_s <= self.limits.step_s) & (bound_usd <= self.limits.step_usd)
        return inside & self.matters(bound_s, bound_usd)

    def _stopped(self) -> bool:
        self.complete = self.complete and not self.stop()
        return not self.complete


class Completion(NamedTuple):
    """What some options take and cost at least, whatever completes the global batch."""

    global_batch: int
    usd_per_sample: float

    @classmethod
    def of(cls, space: Options, global_batch: int) -> "Completion":
        """Return the bound of a space: its least cost per sample by computation alone."""
        per_sample = space.usd_per_s * space.slowest_s / space.samples
        return cls(global_batch, float(per_sample.min(initial=inf)))

    def of_rows(self, space: Options, rows: Ints) -> tuple[Floats, Floats]:
        """Return seconds and dollars of an iteration that no completion of a row undercuts.

        A step takes at least what each group computes. So each group costs at least its own price
        for that long, and so do those that are still missing, for each of their samples.
        """
        slowest_s = space.slowest_s[rows].max(axis=1, initial=0.0) * SHORTENED
        own_usd = space.usd_per_s[rows].sum(axis=1) * slowest_s
        missing = self.global_batch - space.samples[rows].sum(axis=1)
        least_usd = np.where(missing > 0, missing, 0) * (
            self.usd_per_sample if isfinite(self.usd_per_sample) else 0.0
        )
        return slowest_s, own_usd + least_usd * SHORTENED


def divided(amount: float, usd_per_s: Floats) -> Floats:
    """Return how long an amount lasts; infinitely where nothing has to be paid."""
    forever = np.full(len(usd_per_s), inf)
    lasts: Floats = np.divide(amount, usd_per_s, out=forever, where=usd_per_s > 0)
    return lasts
