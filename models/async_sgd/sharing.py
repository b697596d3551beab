"""Resources that are shared: a link's direction, a worker's or a server's cores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from models.async_sgd.fair_rates import Connection


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


class Standing:
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

    def __init__(self, capacity: float, cap: float, standing: Standing | None = None) -> None:
        self._capacity = capacity
        self._cap = cap
        self._standing = standing or Standing()
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


@dataclass
class _Sending:
    flow: Flow
    server: int
    left_bytes: float
    weight: float
    since_s: float
    rate_Bps: float = 0.0
    ended: bool = False


class SharedLinks:
    """The links of all servers and workers in one direction, shared as `rates` says.

    `rates` gets the active connections, the longest without a pause first, their weights, and the
    connections in the `opposite` direction where that makes a difference. One that goes on at once
    with another chunk keeps its place.
    """

    def __init__(
        self,
        server_of: Sequence[int],
        rates: Callable[[Sequence[Connection], Sequence[float], Sequence[Connection]], list[float]],
        standing: Standing | None = None,
    ) -> None:
        self.opposite: SharedLinks | None = None
        self._server_of, self._rates = server_of, rates
        self._standing = standing or Standing()
        self._sending: list[_Sending] = []
        self._as_of_s = 0.0
        self._changed = False
        self.changes = 0

    def start(self, now_s: float, flow: Flow, size: float, weight: float = 1.0) -> None:
        """Let a flow of `size` bytes begin; its weight is multiplied by its worker's standing.

        That depends on the flows it finds at its server.
        """
        self._advance(now_s)
        server = self._server_of[flow.station]
        found = sum(one.server == server and not one.ended for one in self._sending)
        factor, since_s = self._standing.of(now_s, flow, found)
        weight *= factor
        for one in self._sending:
            if one.ended and one.flow[:2] == flow[:2]:
                self._changed |= weight != one.weight
                one.flow, one.left_bytes, one.weight, one.ended = flow, size, weight, False
                return
        self._sending.append(_Sending(flow, server, size, weight, since_s))
        self._sending.sort(key=lambda one: (one.since_s, one.flow.worker))
        self._changed = True

    def finish(self, now_s: float) -> None:
        """End the flow that `next_finish` named, at the time it named."""
        upcoming = self.next_finish()
        self._advance(now_s)
        for one in self._sending:
            one.ended = upcoming is not None and one.flow == upcoming[1]
            if one.ended:
                self._standing.ended(now_s, one.flow)

    def next_finish(self) -> tuple[float, Flow] | None:
        """Return when which flow ends first if nothing changes."""
        if self._changed or any(one.ended for one in self._sending):
            self._sending = [one for one in self._sending if not one.ended]
            weights = [one.weight for one in self._sending]
            against = self.opposite.connections() if self.opposite else ()
            rates_Bps = self._rates(self.connections(), weights, against)
            for one, rate_Bps in zip(self._sending, rates_Bps, strict=True):
                one.rate_Bps = rate_Bps
            self._changed = False
        return min(
            ((self._as_of_s + one.left_bytes / one.rate_Bps, one.flow) for one in self._sending),
            default=None,
        )

    def connections(self) -> list[Connection]:
        """Return who sends between which worker and server."""
        return [Connection(one.flow.worker, one.server) for one in self._sending if not one.ended]

    def disturbed(self, now_s: float) -> None:
        """Note that something has started or ended in the opposite direction."""
        self._advance(now_s)
        self._changed = True

    def _advance(self, now_s: float) -> None:
        self.changes += 1
        for one in self._sending:
            one.left_bytes = max(0.0, one.left_bytes - (now_s - self._as_of_s) * one.rate_Bps)
        self._as_of_s = now_s
