"""Nodes register, leave, fall silent, and tell again before a forecast: by a fake clock."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from pipelines.service.collector import SILENT_S, Collector
from tests.pipelines.service.reports import report
from warehouse import limits
from warehouse.records import BadInput

FOREVER_S = 60.0
"""A test that waits so long has failed."""


class Clock:
    """Shows what it is set to."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def names(collector: Collector) -> list[str]:
    """Return who is there."""
    return [node.name for node in collector.cluster().nodes]


def test_nodes_join_by_telling_and_leave() -> None:
    collector = Collector(Clock())
    collector.tell("b", report())
    collector.tell("a", report())
    collector.tell("b", report(utilisation=0.5))
    assert names(collector) == ["a", "b"]
    assert collector.cluster().nodes[1].report.utilisation == 0.5
    assert collector.leave("a")
    assert not collector.leave("a")
    assert names(collector) == ["b"]


def test_a_silent_node_has_left() -> None:
    clock = Clock()
    collector = Collector(clock)
    collector.tell("a", report())
    clock.now_s += SILENT_S / 2
    collector.tell("b", report())
    assert [node.seconds_ago for node in collector.cluster().nodes] == [SILENT_S / 2, 0.0]
    clock.now_s += SILENT_S / 2 + 1
    assert names(collector) == ["b"]
    collector.tell("a", report())
    assert names(collector) == ["a", "b"]


def test_silent_nodes_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NODES", 2)
    clock = Clock()
    collector = Collector(clock)
    collector.tell("a", report())
    clock.now_s += SILENT_S
    collector.tell("b", report())
    collector.tell("b", report())
    with pytest.raises(BadInput, match="the cluster has 2 nodes, and no more can join"):
        collector.tell("c", report())
    clock.now_s += 1
    collector.tell("c", report())
    assert names(collector) == ["b", "c"]


def test_who_asks_gets_what_nodes_tell_then() -> None:
    """A node that waits is woken; the question waits for what it tells."""
    collector = Collector(held_s=FOREVER_S, refreshed_s=FOREVER_S)
    collector.tell("a", report(utilisation=0.0))
    waits = Event()

    async def node() -> None:
        waiting = asyncio.create_task(collector.wanted("a"))
        await asyncio.sleep(0)
        waits.set()
        await waiting
        collector.tell("a", report(utilisation=0.75))

    with ThreadPoolExecutor() as pool:
        telling = pool.submit(asyncio.run, node())
        assert waits.wait(FOREVER_S)
        (registered,) = collector.refreshed().nodes
        telling.result()
    assert registered.report.utilisation == 0.75


def test_a_node_that_was_between_two_waits_does_not_wait() -> None:
    clock = Clock()
    collector = Collector(clock, held_s=FOREVER_S, refreshed_s=0.0)
    collector.tell("a", report())
    clock.now_s += 1
    collector.refreshed()
    asyncio.run(asyncio.wait_for(collector.wanted("a"), FOREVER_S / 2))


def test_a_question_does_not_wait_for_who_leaves() -> None:
    clock = Clock()
    collector = Collector(clock, refreshed_s=FOREVER_S)
    collector.tell("a", report())
    clock.now_s += 1
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(collector.refreshed)
        # The node is woken once the question waits for it.
        asyncio.run(asyncio.wait_for(collector.wanted("a"), FOREVER_S))
        collector.leave("a")
        assert asking.result(FOREVER_S).nodes == []


def test_nobody_waits_for_a_service_that_ends() -> None:
    collector = Collector(held_s=FOREVER_S)

    async def node() -> None:
        waiting = asyncio.create_task(collector.wanted("a"))
        await asyncio.sleep(0)
        collector.close()
        await waiting
        await collector.wanted("a")

    asyncio.run(asyncio.wait_for(node(), FOREVER_S / 2))


def test_threads_may_tell_leave_and_ask_at_once() -> None:
    collector = Collector(refreshed_s=0.01)

    def node(name: str) -> None:
        for _ in range(200):
            collector.tell(name, report())
            collector.leave(name)
        collector.tell(name, report())

    def asker() -> None:
        for _ in range(50):
            collector.refreshed()

    with ThreadPoolExecutor(6) as pool:
        futures = [pool.submit(node, name) for name in "abcd"]
        futures += [pool.submit(asker) for _ in range(2)]
        for future in futures:
            future.result()
    assert names(collector) == ["a", "b", "c", "d"]
