"""Exhaustive search in bounds: step times of many configurations, and rows that cannot matter."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf, isfinite, isinf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.choice.limits import FORGIVEN, Limits
from models.srift import exchange
from models.srift.exchange import Transfers, power_of_two
from models.srift.iteration import Performance, expected_maximum
from models.srift.space import OfferOptions, splits

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


class BatchSplit(NamedTuple):
    """A way to divide the global batch, with its step time and the price of its nodes."""

    options: tuple[int, ...]
    step_s: float
    usd_per_s: float

    @property
    def step_usd(self) -> float:
        """Cost of one iteration."""
        return self.step_s * self.usd_per_s


# Step times of many configurations: bounds that never exceed them, and the times themselves.


@dataclass(frozen=True)
class _Passes:
    """Of each row: its slowest option, and that one's passes stretched to the slowest node's."""

    slowest: Ints
    forward_s: Floats
    backward_s: Floats
    update_s: Floats

    def step_s(self, exchange_s: Floats) -> Floats:
        step_s: Floats = self.forward_s + np.maximum(self.backward_s, exchange_s) + self.update_s
        return step_s


@dataclass
class Evaluator:
    """Computes step times of rows of options."""

    performance: Performance
    space: OfferOptions
    _tables: dict[tuple[str, ...], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        offers = self.space.offers
        self._types = [offer.node_type for offer in offers]
        self._links_Bps = np.array(
            [self.performance.node(node_type).link_Bps for node_type in self._types]
        )
        self._transfers = [self.performance.transfers(node_type) for node_type in self._types]
        sizes = [power_of_two(transfer.size_bytes) for transfer in self._transfers]
        self._sizes = np.unique(np.concatenate(sizes))
        self._padded = _pad(self._transfers, [np.searchsorted(self._sizes, size) for size in sizes])
        self._corners = _corners(self._transfers)
        self._most_devices = [
            int(self.space.devices[self.space.offer == i].max(initial=0))
            for i in range(len(offers))
        ]

    def lower_bound_s(self, rows: Ints) -> Floats:
        """Return, without looking up any bandwidth, step times that the real ones never undercut.

        Two bounds: the slowest node of all takes no less than the slowest node of a group is
        expected to; and what becomes ready from some moment on has to cross the slowest link, which
        carries no more than b_cap by equation (2).

        Args:
            rows: [rows, groups] of option indices.

        Returns:
            [rows]
        """
        passes = self._passes(rows, self.space.slowest_s[rows].max(axis=1))
        wire, offer = self._wire(rows), self.space.offer[passes.slowest]
        s_per_byte = wire / self._cap_Bps(rows)
        ready, later_bytes = self._corners
        exchange_s = np.zeros(len(rows))
        for i in range(ready.shape[1]):
            sent_s = ready[offer, i] * passes.backward_s + later_bytes[offer, i] * s_per_byte
            np.maximum(exchange_s, sent_s, out=exchange_s)
        return passes.step_s(np.where(wire > 0, exchange_s, 0.0))

    def step_s(self, rows: Ints, at_most_s: Floats) -> Floats:
        """Return step times; infinite ones where they certainly exceed `at_most_s`.

        Args:
            rows: [rows, groups] of option indices.
            at_most_s: [rows], above which a step time does not matter.

        Returns:
            [rows]
        """
        space = self.space
        compute_s = expected_maximum(space.mean_s[rows], space.deviation_s[rows], space.count[rows])
        passes = self._passes(rows, compute_s)
        starts_s, wire_bytes, bus_Bps = self._allreduces(rows, passes)
        # No all-reduce is faster than its own bus bandwidth.
        alone_s = np.where(np.isfinite(starts_s), starts_s + wire_bytes / bus_Bps, 0.0)
        found_s = passes.step_s(alone_s.max(axis=1, initial=0.0))
        wanted = found_s <= at_most_s
        ends_s = np.full(len(rows), np.inf)
        ends_s[wanted] = exchange.exchange_s(
            starts_s[wanted],
            wire_bytes[wanted],
            bus_Bps[wanted],
            self._cap_Bps(rows[wanted]),
            self.performance.streams,
            self.performance.slowdown,
            self.performance.hindrance,
        )
        return passes.step_s(ends_s)

    def usd_per_s(self, rows: Ints) -> Floats:
        """Return the price of all nodes of each row."""
        price: Floats = self.space.usd_per_s[rows].sum(axis=1)
        return price

    def _passes(self, rows: Ints, compute_s: Floats) -> _Passes:
        space = self.space
        slowest = rows[np.arange(len(rows)), space.mean_s[rows].argmax(axis=1)]
        stretch = compute_s / space.mean_s[slowest]
        return _Passes(
            slowest,
            space.forward_s[slowest] * stretch,
            space.backward_s[slowest] * stretch,
            space.update_s[slowest] * stretch,
        )

    def _cap_Bps(self, rows: Ints) -> Floats:
        single = self.space.count[rows].sum(axis=1) == 1
        return np.where(single, np.inf, self._links_Bps[self.space.offer[rows]].min(axis=1))

    def _wire(self, rows: Ints) -> Floats:
        ranks = self.space.devices[rows].sum(axis=1)
        wire: Floats = 2 * (ranks - 1) / ranks
        return wire

    def _allreduces(self, rows: Ints, passes: _Passes) -> tuple[Floats, Floats, Floats]:
        ready, sent_bytes, size = self._padded
        offer = self.space.offer[passes.slowest]
        ranks, wire = self.space.devices[rows].sum(axis=1), self._wire(rows)
        bus_Bps = np.ones((len(rows), ready.shape[1]))
        for mix, members in self._mixes(rows).items():
            bus_Bps[members] = self._table(mix)[ranks[members, None], size[offer[members]]]
        starts_s = np.full(bus_Bps.shape, np.inf)
        exists = np.isfinite(ready[offer]) & (wire[:, None] > 0)
        np.multiply(ready[offer], passes.backward_s[:, None], out=starts_s, where=exists)
        return starts_s, sent_bytes[offer] * wire[:, None], bus_Bps

    def _mixes(self, rows: Ints) -> dict[tuple[str, ...], Ints]:
        """Return the rows of each mix of node types."""
        rows_by_mix: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for row, offers in enumerate(self.space.offer[rows].tolist()):
            rows_by_mix[tuple(sorted({self._types[offer] for offer in offers}))].append(row)
        return {mix: np.array(members) for mix, members in rows_by_mix.items()}

    def _table(self, mix: tuple[str, ...]) -> Floats:
        """Return bus bandwidth of a mix, [world size, size]; that of one rank is never used."""
        if mix not in self._tables:
            offers = [i for i, node_type in enumerate(self._types) if node_type in mix]
            most = max(2, sum(self._most_devices[i] for i in offers))
            known = self.performance.bandwidth.table(mix, np.arange(2, most + 1), self._sizes)
            self._tables[mix] = np.vstack([np.ones((2, len(self._sizes))), known])
        return self._tables[mix]


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
    def take(self, rows: list[BatchSplit]) -> None:
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
        bounds = partial(completion_bounds, space, global_batch)
        each = np.arange(len(space.offer))[:, None]
        allowed = self._affordable(each) & self._within(*bounds(each))
        for ways in splits(space, global_batch, types, allowed):
            if self._stopped():
                return
            yield ways[self._affordable(ways) & self._within(*bounds(ways))]

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
        affordable_s = np.minimum(limits.step_s, divide_amount(limits.step_usd, usd_per_s))
        at_most_s = np.minimum(affordable_s, self.at_most_s(usd_per_s)) / SHORTENED
        times_s = self.evaluator.step_s(rows, at_most_s)
        columns = (rows.tolist(), times_s.tolist(), usd_per_s.tolist())
        splits = [BatchSplit(tuple(row), *rest) for row, *rest in zip(*columns, strict=True)]
        self.take(
            [
                split
                for split in splits
                if isfinite(split.step_s)
                and split.step_s <= limits.step_s
                and split.step_usd <= limits.step_usd
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


def completion_bounds(space: OfferOptions, global_batch: int, rows: Ints) -> tuple[Floats, Floats]:
    """Return seconds and dollars of an iteration that no completion of a row undercuts.

    A step takes at least what each group computes. So each group costs at least its own price for
    that long, and so do those that are still missing of the global batch, for each of their samples
    at the least cost per sample by computation alone.
    """
    slowest_s = space.slowest_s[rows].max(axis=1, initial=0.0) * SHORTENED
    own_usd = space.usd_per_s[rows].sum(axis=1) * slowest_s
    missing = np.maximum(global_batch - space.samples[rows].sum(axis=1), 0)
    usd_per_sample = (space.usd_per_s * space.slowest_s / space.samples).min(initial=inf)
    if isinf(usd_per_sample):
        return slowest_s, own_usd
    return slowest_s, own_usd + missing * usd_per_sample * SHORTENED


def divide_amount(amount: float, usd_per_s: Floats) -> Floats:
    """Return how long an amount lasts; infinitely where nothing has to be paid."""
    forever = np.full(len(usd_per_s), inf)
    lasts: Floats = np.divide(amount, usd_per_s, out=forever, where=usd_per_s > 0)
    return lasts


def _pad(transfers: list[Transfers], sizes: list[Ints]) -> tuple[Floats, Floats, Ints]:
    """Return ready, bytes and place of the size, as [offers, transfers]."""
    shape = (len(transfers), max(len(transfer.ready) for transfer in transfers))
    ready, sent = np.full(shape, np.inf), np.zeros(shape)
    size = np.zeros(shape, dtype=np.int64)
    for i, (transfer, places) in enumerate(zip(transfers, sizes, strict=True)):
        n = len(transfer.ready)
        ready[i, :n], sent[i, :n], size[i, :n] = transfer.ready, transfer.expected_bytes, places
    return ready, sent, size


def _corners(transfers: list[Transfers]) -> tuple[Floats, Floats]:
    """Return ready and the bytes that follow from then on, of those transfers that can decide.

    Of all ready · x + bytes · y with x, y ≥ 0, one on the upper right of their convex hull is the
    largest. [offers, corners], filled up with zeros.
    """
    hulls = [_hull(transfer) for transfer in transfers]
    shape = (len(hulls), max(len(hull) for hull in hulls))
    ready, later = np.zeros(shape), np.zeros(shape)
    for i, hull in enumerate(hulls):
        for corner, (at, size) in enumerate(hull):
            ready[i, corner], later[i, corner] = at, size
    return ready, later


def _hull(transfers: Transfers) -> list[tuple[float, float]]:
    later = transfers.expected_bytes[::-1].cumsum()[::-1]
    hull: list[tuple[float, float]] = []
    for x, y in zip(transfers.ready.tolist(), later.tolist(), strict=True):
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (x1 - x0) * (y - y0) < (y1 - y0) * (x - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull
