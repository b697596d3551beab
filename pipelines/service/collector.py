"""The Cluster Resource Collector: which nodes there are, and what is free of each.

Nodes tell of themselves and wait for the answer, which is given when somebody asks for a forecast,
so that they tell again at once: what a forecast rests on is as fresh as the question. A node that
falls silent is no part of the cluster any more.

Source: Assogba et al., PredictDDL, section III-F.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Condition

from pipelines.service.contracts import Cluster, Registered, Report
from warehouse import limits
from warehouse.records import BadInput

SILENT_S = 30.0
"""A node that has told nothing for so long has left."""
HELD_S = 10.0
"""How long a node waits at most before it tells again."""
REFRESHED_S = 1.0
"""How long a question waits at most for what nodes tell."""
Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class Collector:
    """The nodes of a cluster by name. Several threads may use it.

    Args:
        clock: seconds that only grow.
        held_s: how long a node waits at most before it tells again.
        refreshed_s: how long a question waits at most for what nodes tell.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        held_s: float = HELD_S,
        refreshed_s: float = REFRESHED_S,
    ) -> None:
        self._clock, self._held_s, self._refreshed_s = clock, held_s, refreshed_s
        self._told: dict[str, tuple[Report, float]] = {}  # with when that was
        self._changed = Condition()
        self._waiting: dict[Waiter, str] = {}
        self._asked_s = float("-inf")
        self._closed = False

    def tell(self, name: str, report: Report) -> None:
        """Take what a node tells of itself; the first time, it joins.

        Raises:
            BadInput: there are too many.
        """
        with self._changed:
            self._forget_silent()
            if name not in self._told and len(self._told) >= limits.NODES:
                raise BadInput(f"the cluster has {limits.NODES:,} nodes, and no more can join")
            self._told[name] = report, self._clock()
            self._changed.notify_all()

    async def wanted(self, name: str) -> None:
        """Wait until somebody asks for a forecast, or until a node has waited long enough.

        Who has told nothing since somebody last asked does not wait.
        """
        waiter = asyncio.get_running_loop(), asyncio.Event()
        with self._changed:
            _, told_s = self._told.get(name, (None, self._asked_s))
            if self._closed or told_s < self._asked_s:
                return
            self._waiting[waiter] = name
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(waiter[1].wait(), self._held_s)
        finally:
            with self._changed:
                self._waiting.pop(waiter, None)

    def leave(self, name: str) -> bool:
        """Let a node leave; return whether it was there."""
        with self._changed:
            self._changed.notify_all()
            return self._told.pop(name, None) is not None

    def refreshed(self) -> Cluster:
        """Ask all nodes to tell again; return the cluster when they have, or after a while."""
        with self._changed:
            self._forget_silent()
            asked_s = self._asked_s = self._clock()
            self._wake()
            self._changed.wait_for(
                lambda: all(told_s >= asked_s for _, told_s in self._told.values()),
                self._refreshed_s,
            )
            return self.cluster()

    def cluster(self) -> Cluster:
        """Return the nodes that have not fallen silent, by name."""
        with self._changed:
            self._forget_silent()
            now_s = self._clock()
            return Cluster(
                nodes=[
                    Registered(name=name, report=report, seconds_ago=now_s - told_s)
                    for name, (report, told_s) in sorted(self._told.items())
                ]
            )

    def close(self) -> None:
        """Let no node wait any more; a service that ends would wait for them."""
        with self._changed:
            self._closed = True
            self._wake()

    def _wake(self) -> None:
        for loop, event in self._waiting:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(event.set)

    def _forget_silent(self) -> None:
        oldest_s = self._clock() - SILENT_S
        silent = [name for name, (_, told_s) in self._told.items() if told_s < oldest_s]
        for name in silent:
            del self._told[name]
