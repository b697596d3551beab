"""A resource that is divided equally among what uses it: a link's direction, a worker's CPU."""

from heapq import heappop, heappush


def share(capacity: float, active: int, cap: float) -> float:
    """Return the speed each of `active` flows gets: equal shares, none above `cap`.

    Source: Li et al., ICPE 2020, section 3.1 and Share(r, active) of Algorithm 3.1; `cap`, the
    speed of a worker's own link or of a single operation, is ours.
    """
    return min(capacity / active, cap)


class SharedResource:
    """Flows under equal sharing, by virtual time: the work a flow would have got so far.

    Work is bytes on a link (capacity in bytes/s) and seconds of one operation alone on a worker
    (capacity in operations at full speed). All running flows progress alike, so a flow of size s
    that starts at virtual time v ends at v + s, whoever comes or goes meanwhile. Starting and
    ending a flow is O(log flows), where Algorithm 3.1 updates the remaining time of every chunk.
    """

    def __init__(self, capacity: float, cap: float) -> None:
        self._capacity = capacity
        self._cap = cap
        self._flows: list[tuple[float, int, int]] = []
        self._virtual = 0.0
        self._as_of_s = 0.0
        self.changes = 0

    def start(self, now_s: float, worker: int, operation: int, size: float) -> None:
        """Let a worker's operation begin a flow of `size`."""
        if self._flows:
            self._virtual += (now_s - self._as_of_s) * self._speed()
        self._as_of_s = now_s
        heappush(self._flows, (self._virtual + size, worker, operation))
        self.changes += 1

    def finish(self, now_s: float) -> None:
        """Remove the flow that `next_finish` named, at the time it named."""
        end, _, _ = heappop(self._flows)
        self._virtual = end if self._flows else 0.0
        self._as_of_s = now_s
        self.changes += 1

    def next_finish(self) -> tuple[float, int, int] | None:
        """Return time, worker and operation of the flow that ends first if nothing changes."""
        if not self._flows:
            return None
        end, worker, operation = self._flows[0]
        left = max(0.0, end - self._virtual)
        return self._as_of_s + left / self._speed(), worker, operation

    def _speed(self) -> float:
        return share(self._capacity, len(self._flows), self._cap)
