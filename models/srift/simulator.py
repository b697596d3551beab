"""The parameter exchange of one iteration, event by event (section 4.3)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal

Kind = Literal["start", "finish"]


@dataclass(frozen=True)
class Allreduce:
    """One transfer: when it may start, what it moves, how fast it goes alone.

    `start_s` is the part of the backward pass after which its gradient is there, in seconds that
    the pass takes undisturbed, `wire_bytes` 2s(n − 1)/n, `bus_Bps` the bus bandwidth the model
    expects for its size.
    """

    start_s: float
    wire_bytes: float
    bus_Bps: float


@dataclass(frozen=True)
class Event:
    """A processed event: a transfer started or finished, and how many went on after it."""

    time_s: float
    kind: Kind
    transfer: int
    concurrent: int


def exchange(
    allreduces: Sequence[Allreduce],
    cap_Bps: float,
    most: int | None = None,
    slowdown: float = 0.0,
    hindrance: float = 0.0,
) -> list[Event]:
    """Return all events in order; the last one ends the exchange, no transfers: no events.

    The clock begins with the backward pass. Where either disturbs the other, that ends when the
    last transfer may start; a transfer of nothing makes that the end of the pass.

    Args:
        allreduces: the transfers.
        cap_Bps: b_cap.
        most: how many go on at a time, others wait for their turn; None: all, as in the paper.
        slowdown: by which part of its time the backward pass takes longer while any transfer goes
            on; 0 in the paper.
        hindrance: by which part of its time a transfer takes longer as long as the backward pass
            goes on; 0 in the paper.

    Source: section 4.3: event queue, concurrency counter and equation (2).
    """
    order = sorted(range(len(allreduces)), key=lambda index: allreduces[index].start_s)
    simulation = _Simulation(allreduces, cap_Bps, most, slowdown, hindrance, coming=deque(order))
    return simulation.run()


def exchange_s(
    allreduces: Sequence[Allreduce],
    cap_Bps: float,
    most: int | None = None,
    slowdown: float = 0.0,
    hindrance: float = 0.0,
) -> float:
    """Return when the exchange ends, seconds after the backward pass began."""
    events = exchange(allreduces, cap_Bps, most, slowdown, hindrance)
    return events[-1].time_s if events else 0.0


@dataclass
class _Active:
    left_bytes: float
    bus_Bps: float
    rate_Bps: float = 0.0
    version: int = 0


@dataclass
class _Simulation:
    """The state between events.

    The queue holds (time, is a start, transfer, version): estimated finishes of what is active and
    the estimated start of what comes next. An estimate that a change of rates or of pace made wrong
    stays there with an old version and is passed over. `pace` is the seconds for which the backward
    pass needs one undisturbed second, `computed_s` what it has done of those.
    """

    allreduces: Sequence[Allreduce]
    cap_Bps: float
    most: int | None
    slowdown: float
    hindrance: float
    coming: deque[int]
    queue: list[tuple[float, bool, int, int]] = field(default_factory=list)
    active: dict[int, _Active] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)
    events: list[Event] = field(default_factory=list)
    now_s: float = 0.0
    computed_s: float = 0.0
    pace: float = 1.0
    coming_version: int = 0

    def run(self) -> list[Event]:
        self._estimate_start()
        while self.queue:
            time_s, is_start, index, version = heappop(self.queue)
            if version != self._version(is_start, index):
                continue
            self._advance(time_s)
            if is_start:
                self.waiting.append(self.coming.popleft())
            else:
                del self.active[index]
                self._note("finish", index)
            self._start_waiting()
            self._reallocate()
            pace = 1 + self.slowdown if self.active else 1.0
            if is_start or pace != self.pace:
                self.pace = pace
                self._estimate_start()
        return self.events

    def _version(self, is_start: bool, index: int) -> int | None:
        if is_start:
            return self.coming_version
        return self.active[index].version if index in self.active else None

    def _advance(self, time_s: float) -> None:
        timespan_s = time_s - self.now_s
        for one in self.active.values():
            one.left_bytes = max(one.left_bytes - one.rate_Bps * timespan_s, 0.0)
        self.computed_s += timespan_s / self.pace
        self.now_s = time_s

    def _start_waiting(self) -> None:
        while self.waiting and (self.most is None or len(self.active) < self.most):
            index = self.waiting.popleft()
            one = self.allreduces[index]
            self.active[index] = _Active(one.wire_bytes, one.bus_Bps)
            self._note("start", index)

    def _reallocate(self) -> None:
        """Apply equation (2) and hindrance; estimate finishes again where a rate changed."""
        total_Bps = sum(one.bus_Bps for one in self.active.values())
        for index, one in self.active.items():
            rate_Bps = one.bus_Bps
            if total_Bps >= self.cap_Bps:
                rate_Bps = min(one.bus_Bps, self.cap_Bps / len(self.active))
            if self.coming:
                rate_Bps /= 1 + self.hindrance
            if rate_Bps != one.rate_Bps:
                one.rate_Bps = rate_Bps
                one.version += 1
                finish_s = self.now_s + one.left_bytes / rate_Bps
                heappush(self.queue, (finish_s, False, index, one.version))

    def _estimate_start(self) -> None:
        if self.coming:
            index = self.coming[0]
            left_s = max(self.allreduces[index].start_s - self.computed_s, 0.0)
            self.coming_version += 1
            start_s = self.now_s + left_s * self.pace
            heappush(self.queue, (start_s, True, index, self.coming_version))

    def _note(self, kind: Kind, index: int) -> None:
        self.events.append(Event(self.now_s, kind, index, len(self.active)))
