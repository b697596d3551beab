"""Resources that are shared: a link's direction, a worker's or a server's cores."""

from heapq import heappop, heappush
from math import inf
from typing import NamedTuple


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
