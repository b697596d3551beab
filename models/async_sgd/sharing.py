"""A resource that is divided among what uses it: a link's direction, a worker's CPU."""

from heapq import heappop, heappush


def share(capacity: float, active: float, cap: float) -> float:
    """Return the speed each of `active` flows gets: equal shares, none above `cap`.

    Of flows with weights, `active` is the sum, and the speed that of a weight of 1.

    Source: Li et al., ICPE 2020, section 3.1 and Share(r, active) of Algorithm 3.1; `cap`, the
    speed of a worker's own link or of a single operation, and weights are ours.
    """
    return min(capacity / active, cap)


class SharedResource:
    """Flows under sharing by weight, in virtual time: the work a flow of weight 1 had so far.

    Work is bytes on a link (capacity in bytes/s) and seconds of one operation alone on a worker
    (capacity in operations at full speed). A flow of size s and weight w that starts at virtual
    time v ends at v + s / w, whoever comes or goes meanwhile. Starting and ending a flow is
    O(log flows), where Algorithm 3.1 updates the remaining time of every chunk.
    """

    def __init__(self, capacity: float, cap: float, newcomer_weight: float = 1.0) -> None:
        self._capacity = capacity
        self._cap = cap
        self._newcomer_weight = newcomer_weight
        self._flows: list[tuple[float, int, int, float]] = []
        self._weights = 0.0
        self._virtual = 0.0
        self._as_of_s = 0.0
        self.changes = 0

    def start(
        self, now_s: float, worker: int, operation: int, size: float, weight: float = 1.0
    ) -> None:
        """Let a worker's operation begin a flow of `size`.

        For every flow it finds there, its weight is multiplied by `newcomer_weight`.
        """
        if self._flows:
            self._virtual += (now_s - self._as_of_s) * self._speed()
            weight *= self._newcomer_weight ** len(self._flows)
        self._as_of_s = now_s
        heappush(self._flows, (self._virtual + size / weight, worker, operation, weight))
        self._weights += weight
        self.changes += 1

    def finish(self, now_s: float) -> None:
        """Remove the flow that `next_finish` named, at the time it named."""
        end, _, _, weight = heappop(self._flows)
        # An idle resource starts afresh, so that rounding never adds up.
        self._virtual = end if self._flows else 0.0
        self._weights = self._weights - weight if self._flows else 0.0
        self._as_of_s = now_s
        self.changes += 1

    def next_finish(self) -> tuple[float, int, int] | None:
        """Return time, worker and operation of the flow that ends first if nothing changes."""
        if not self._flows:
            return None
        end, worker, operation, _ = self._flows[0]
        left = max(0.0, end - self._virtual)
        return self._as_of_s + left / self._speed(), worker, operation

    def _speed(self) -> float:
        return share(self._capacity, self._weights, self._cap)
