"""The parameter exchange of one iteration, event by event (section 4.3)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal


@dataclass(frozen=True)
class Allreduce:
    """One transfer: when it may start, what it moves, how fast it goes alone.

    `wire_bytes` is 2s(n − 1)/n, `bus_Bps` the bus bandwidth the model expects for its size.
    """

    start_s: float
    wire_bytes: float
    bus_Bps: float


@dataclass(frozen=True)
class Event:
    """A processed event: a transfer started or finished, and how many went on after it."""

    time_s: float
    kind: Literal["start", "finish"]
    transfer: int
    concurrent: int


@dataclass
class _Active:
    left_bytes: float
    bus_Bps: float
    rate_Bps: float = 0.0
    version: int = 0


def exchange(
    allreduces: Sequence[Allreduce], cap_Bps: float, most: int | None = None
) -> list[Event]:
    """Return all events in order; the last one ends the exchange, no transfers: no events.

    The clock begins with the backward pass. An estimated finish that a change of rates made wrong
    stays in the queue and is passed over.

    Args:
        allreduces: the transfers, in the order in which they were issued.
        cap_Bps: b_cap.
        most: how many go on at a time, others wait for their turn; None: all, as in the paper.

    Source: section 4.3: event queue, concurrency counter and equation (2).
    """
    queue: list[tuple[float, int, int, int]] = []
    for index, allreduce in enumerate(allreduces):
        heappush(queue, (allreduce.start_s, 1, index, 0))
    active: dict[int, _Active] = {}
    waiting: deque[int] = deque()
    events: list[Event] = []
    now_s = 0.0
    while queue:
        time_s, is_start, index, version = heappop(queue)
        if not is_start and (index not in active or active[index].version != version):
            continue
        for other in active.values():
            other.left_bytes = max(other.left_bytes - other.rate_Bps * (time_s - now_s), 0.0)
        now_s = time_s
        if is_start:
            waiting.append(index)
        else:
            del active[index]
            events.append(Event(now_s, "finish", index, len(active)))
        while waiting and (most is None or len(active) < most):
            index = waiting.popleft()
            active[index] = _Active(allreduces[index].wire_bytes, allreduces[index].bus_Bps)
            events.append(Event(now_s, "start", index, len(active)))
        for transfer, finish_s, renewed in _reallocate(active, cap_Bps, now_s):
            heappush(queue, (finish_s, 0, transfer, renewed))
    return events


def exchange_s(allreduces: Sequence[Allreduce], cap_Bps: float, most: int | None = None) -> float:
    """Return when the exchange ends, seconds after the backward pass began."""
    events = exchange(allreduces, cap_Bps, most)
    return events[-1].time_s if events else 0.0


def _reallocate(
    active: dict[int, _Active], cap_Bps: float, now_s: float
) -> list[tuple[int, float, int]]:
    """Apply equation (2); return transfer, estimated finish and version where a rate changed."""
    total_Bps = sum(one.bus_Bps for one in active.values())
    changed = []
    for index, one in active.items():
        rate_Bps = one.bus_Bps if total_Bps < cap_Bps else min(one.bus_Bps, cap_Bps / len(active))
        if rate_Bps != one.rate_Bps:
            one.rate_Bps = rate_Bps
            one.version += 1
            changed.append((index, now_s + one.left_bytes / rate_Bps, one.version))
    return changed
