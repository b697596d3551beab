"""Step times of many configurations: bounds that never exceed them, and the times themselves."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from models.srift import exchange_batch
from models.srift.exchange import Transfers, power_of_two
from models.srift.performance import Performance
from models.srift.space import Options
from models.srift.stragglers import expected_maximum

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    """Computes step times of rows of options; `simulated` counts those it has simulated."""

    performance: Performance
    space: Options
    simulated: int = 0
    _tables: dict[tuple[str, ...], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        offers = self.space.offers
        self._types = [one.node_type for one in offers]
        self._links_Bps = np.array([self.performance.node(one).link_Bps for one in self._types])
        self._transfers = [self.performance.transfers(one) for one in self._types]
        sizes = [power_of_two(one.size_bytes) for one in self._transfers]
        self._sizes = np.unique(np.concatenate(sizes))
        self._padded = _pad(self._transfers, [np.searchsorted(self._sizes, one) for one in sizes])
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
        ends_s[wanted] = exchange_batch.exchange_s(
            starts_s[wanted],
            wire_bytes[wanted],
            bus_Bps[wanted],
            self._cap_Bps(rows[wanted]),
            self.performance.streams,
            self.performance.slowdown,
            self.performance.hindrance,
        )
        self.simulated += int(wanted.sum())
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
        found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for row, offers in enumerate(self.space.offer[rows].tolist()):
            found[tuple(sorted({self._types[one] for one in offers}))].append(row)
        return {mix: np.array(members) for mix, members in found.items()}

    def _table(self, mix: tuple[str, ...]) -> Floats:
        """Return bus bandwidth of a mix, [world size, size]; that of one rank is never used."""
        if mix not in self._tables:
            offers = [i for i, one in enumerate(self._types) if one in mix]
            most = max(2, sum(self._most_devices[i] for i in offers))
            known = self.performance.bandwidth.table(mix, np.arange(2, most + 1), self._sizes)
            self._tables[mix] = np.vstack([np.ones((2, len(self._sizes))), known])
        return self._tables[mix]


def _pad(transfers: list[Transfers], sizes: list[Ints]) -> tuple[Floats, Floats, Ints]:
    """Return ready, bytes and place of the size, as [offers, transfers]."""
    shape = (len(transfers), max(len(one.ready) for one in transfers))
    ready, sent = np.full(shape, np.inf), np.zeros(shape)
    size = np.zeros(shape, dtype=np.int64)
    for i, (one, places) in enumerate(zip(transfers, sizes, strict=True)):
        n = len(one.ready)
        ready[i, :n], sent[i, :n], size[i, :n] = one.ready, one.expected_bytes, places
    return ready, sent, size


def _corners(transfers: list[Transfers]) -> tuple[Floats, Floats]:
    """Return ready and the bytes that follow from then on, of those transfers that can decide.

    Of all ready · x + bytes · y with x, y ≥ 0, one on the upper right of their convex hull is the
    largest. [offers, corners], filled up with zeros.
    """
    hulls = [_hull(one) for one in transfers]
    shape = (len(hulls), max(len(one) for one in hulls))
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
