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
from dataclasses import dataclass
from threading import Condition

from pipelines.service.contracts import Cluster, Registered, Report
from warehouse.records import BadInput

SILENT_S = 30.0
"""A node that has told nothing for so long has left."""
HELD_S = 10.0
"""How long a node waits at most before it tells again."""
MOST_NODES = 10_000


@dataclass
class _Known:
    report: Report
    at_s: float


class Collector:
    """The nodes of a cluster by name. Several threads may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._nodes: dict[str, _Known] = {}
        self._changed = Condition()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def tell(self, name: str, report: Report) -> None:
        """Take what a node tells of itself; the first time, it joins.

        Raises:
            BadInput: there are too many.
        """
        with self._changed:
            self._forget_silent()
            if name not in self._nodes and len(self._nodes) >= MOST_NODES:
                raise BadInput(f"the cluster has {MOST_NODES:,} nodes, and no more can join")
            self._nodes[name] = _Known(report, self._clock())
            self._changed.notify_all()

    async def wanted(self, timeout_s: float = HELD_S) -> None:
        """Wait until somebody asks for a forecast, for so long at most."""
        waiter = asyncio.get_running_loop(), asyncio.Event()
        with self._changed:
            self._waiting.add(waiter)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(waiter[1].wait(), timeout_s)
        finally:
            with self._changed:
                self._waiting.discard(waiter)

    def leave(self, name: str) -> bool:
        """Let a node leave; return whether it was there."""
        with self._changed:
            return self._nodes.pop(name, None) is not None

    def refreshed(self, timeout_s: float = 1.0) -> Cluster:
        """Ask all nodes to tell again; return the cluster when they have, or after so long."""
        with self._changed:
            asked_s = self._clock()
            for loop, event in self._waiting:
                loop.call_soon_threadsafe(event.set)
            self._changed.wait_for(
                lambda: all(one.at_s >= asked_s for one in self._nodes.values()), timeout_s
            )
        return self.cluster()

    def cluster(self) -> Cluster:
        """Return the nodes that have not fallen silent, by name."""
        with self._changed:
            self._forget_silent()
            now_s = self._clock()
            return Cluster(
                nodes=[
                    Registered(name=name, report=one.report, seconds_ago=now_s - one.at_s)
                    for name, one in sorted(self._nodes.items())
                ]
            )

    def _forget_silent(self) -> None:
        oldest_s = self._clock() - SILENT_S
        for name in [name for name, one in self._nodes.items() if one.at_s < oldest_s]:
            del self._nodes[name]
