"""How flows share what they use at the same time: equally, by weight, or as was measured."""

from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np
import polars as pl

# Resources that are shared: a link's direction, a worker's or a server's cores.


class Flow(NamedTuple):
    """A chunk that uses something shared; those that end together end in this order."""

    worker: int
    station: int
    operation: int


def share(capacity: float, active: float, cap: float) -> float:
    """Return the speed each of `active` flows gets: equal shares, none above `cap`.

    Of flows with weights, `active` is the sum, and the speed that of a weight of 1.

    Source: Li et al., ICPE 2020, section 3.1 and Share(r, active) of Algorithm 3.1; `cap`, the
    speed of a worker's own link or of a single operation, and weights are ours.
    """
    return min(capacity / active, cap)


class NewcomerWeights:
    """Since when a worker uses a station, and what its flows' weight is multiplied by there.

    The factor is `newcomer_weight` for every flow that was found when the worker began there after
    a pause of `pause_s` or more; until its next such pause it keeps both.
    """

    def __init__(self, newcomer_weight: float = 1.0, pause_s: float = 0.0) -> None:
        self._newcomer_weight, self._pause_s = newcomer_weight, pause_s
        self._began: dict[tuple[int, int], tuple[float, float]] = {}
        self._ended_s: dict[tuple[int, int], float] = {}

    def of(self, now_s: float, flow: Flow, found: int) -> tuple[float, float]:
        """Return factor and beginning for a flow that starts beside `found` others."""
        connection = flow.worker, flow.station
        if now_s - self._ended_s.get(connection, -inf) >= self._pause_s:
            self._began[connection] = self._newcomer_weight**found, now_s
        return self._began[connection]

    def ended(self, now_s: float, flow: Flow) -> None:
        """Note that a flow has ended."""
        self._ended_s[flow.worker, flow.station] = now_s


class SharedResource:
    """Flows under sharing by weight, in virtual time: the work a flow of weight 1 had so far.

    Work is bytes on a link (capacity in bytes/s) and seconds of one operation alone on a processor
    (capacity in operations at full speed). A flow of size s and weight w that starts at virtual
    time v ends at v + s / w, whoever comes or goes meanwhile. Starting and ending a flow is
    O(log flows), where Algorithm 3.1 updates the remaining time of every chunk.
    """

    def __init__(
        self, capacity: float, cap: float, standing: NewcomerWeights | None = None
    ) -> None:
        self._capacity = capacity
        self._cap = cap
        self._standing = standing or NewcomerWeights()
        self._flows: list[tuple[float, Flow, float]] = []
        self._weights = 0.0
        self._virtual = 0.0
        self._as_of_s = 0.0
        self.changes = 0

    def start(self, now_s: float, flow: Flow, size: float, weight: float = 1.0) -> None:
        """Let a flow of `size` begin; its weight is multiplied by its worker's standing."""
        if self._flows:
            self._virtual += (now_s - self._as_of_s) * self._speed()
        weight *= self._standing.of(now_s, flow, len(self._flows))[0]
        self._as_of_s = now_s
        heappush(self._flows, (self._virtual + size / weight, flow, weight))
        self._weights += weight
        self.changes += 1

    def finish(self, now_s: float) -> None:
        """Remove the flow that `next_finish` named, at the time it named."""
        end, flow, weight = heappop(self._flows)
        self._standing.ended(now_s, flow)
        # An idle resource starts afresh, so that rounding never adds up.
        self._virtual = end if self._flows else 0.0
        self._weights = self._weights - weight if self._flows else 0.0
        self._as_of_s = now_s
        self.changes += 1

    def next_finish(self) -> tuple[float, Flow] | None:
        """Return when which flow ends first if nothing changes."""
        if not self._flows:
            return None
        end, flow, _ = self._flows[0]
        left = max(0.0, end - self._virtual)
        return self._as_of_s + left / self._speed(), flow

    def _speed(self) -> float:
        return share(self._capacity, self._weights, self._cap)


# What n flows that use a link at the same time really get of it, where that was measured.


@dataclass(frozen=True)
class MeasuredSharing:
    """Measured sharing of one direction of a server's link, of which each flow gets as much.

    With `flows[i]` flows, ascending, all together get `efficiency[i]` of the link's speed.

    A flow gets no more than the fraction `opposed[m]` of the link's speed while m flows go the
    other way, which delay its acknowledgements; of more than were seen, as of the most.
    """

    flows: tuple[int, ...]
    efficiency: tuple[float, ...]
    opposed: tuple[float, ...] = (1.0,)

    def against(self, m: int) -> float:
        """Return the most that a flow gets of the link while `m` others go the other way."""
        return self.opposed[min(m, len(self.opposed) - 1)]

    def of(self, n: int) -> float:
        """Return the efficiency of `n` flows, interpolated; beyond those measured, it stays."""
        return float(np.interp(n, self.flows, self.efficiency))


# From the contention probe's rows to how simulated transfers share a link.


MIN_SECONDS = 0.5
"""A number of transfers that was seen for less than this is left out."""


def measured_sharing(
    contention: pl.DataFrame, direction: str, link_Bps: float
) -> MeasuredSharing | None:
    """Return how n transfers share a direction of a link, None if that was not probed.

    Args:
        contention: rows of table contention of one link speed and worker type. Where `opposite` is
            NULL, nothing is taken to have gone the other way.
        direction: downlink or uplink.
        link_Bps: the goodput that efficiencies are relative to.

    A transfer that is alone gets all of the link: what keeps it from that, such as its worker's
    share of a processor, is in the profile already. What others keep from it that go the other way
    is what was seen of single transfers; those of several together are seen while the fewest do.
    """
    seen = contention.filter(pl.col("direction") == direction).with_columns(
        pl.col("opposite").fill_null(0)
    )
    # Of each number of flows those rows that the fewest went against, for long enough.
    lasted = pl.col("seconds").sum().over("flows", "opposite", "place")
    rows = (
        seen.filter(lasted >= MIN_SECONDS)
        .filter(pl.col("opposite") == pl.col("opposite").min().over("flows"))
        .group_by("flows", "place")
        .agg(pl.sum("seconds", "bytes"))
        .sort("flows", "place")
    )
    by_flows = {n: part for (n,), part in rows.group_by("flows", maintain_order=True)}
    complete = {n: part for n, part in by_flows.items() if part.height == n > 1}
    if not complete:
        return None
    speeds_Bps = {1: link_Bps}
    speeds_Bps |= {
        n: float((part["bytes"] / part["seconds"]).sum()) for n, part in complete.items()
    }
    return MeasuredSharing(
        flows=tuple(speeds_Bps),
        efficiency=tuple(speed_Bps / link_Bps for speed_Bps in speeds_Bps.values()),
        opposed=_opposed(seen, link_Bps),
    )


def _opposed(seen: pl.DataFrame, link_Bps: float) -> tuple[float, ...]:
    """Return what single transfers carried of the link while 0, 1, 2 … others went against them."""
    single = (
        seen.filter(pl.col("flows") == 1)
        .group_by("opposite")
        .agg(pl.sum("seconds", "bytes"))
        .filter(pl.col("seconds") >= MIN_SECONDS)
    )
    carried = {m: size_bytes / seconds for m, seconds, size_bytes in single.iter_rows()}
    fractions = [1.0]
    for m in range(1, max(carried, default=0) + 1):
        fractions.append(min(fractions[-1], carried.get(m, link_Bps) / link_Bps))
    return tuple(fractions)
