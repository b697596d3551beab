"""Lanes: what needs machines of its own is measured beside what needs others.

Each lane has a thread, and one cluster at a time. Taking a cluster down ends what runs on it, so
that is how lanes are stopped.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

from profilers.clusters import Cluster
from warehouse.records import ProbeFailed

T = TypeVar("T")
_POLL_S = 0.5


class Clusters:
    """The clusters that lanes have up; after `stop` none of them is, and none comes up again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._up: list[Cluster] = []
        self.stopped = False

    @contextmanager
    def opened(self, cluster: Cluster) -> Iterator[Cluster]:
        """Bring a cluster up for a block.

        Raises:
            ProbeFailed: lanes have been stopped.
        """
        with self._lock:
            self.check_not_stopped()
            self._up.append(cluster)
        try:
            with cluster:
                yield cluster
        finally:
            with self._lock:
                self._up.remove(cluster)

    def check_not_stopped(self) -> None:
        """Refuse to go on where lanes have been stopped.

        Raises:
            ProbeFailed: they have been.
        """
        if self.stopped:
            raise ProbeFailed("stopped with what ran beside it")

    def stop(self) -> None:
        """Take all down that are up or coming up."""
        with self._lock:
            self.stopped = True
            up = list(self._up)
        for cluster in up:
            cluster.down()


def lanes(items: Sequence[T], kinds: Callable[[T], Set[str]]) -> list[list[T]]:
    """Divide items into lanes that share no kind of machine; each has its items in their order."""
    found: list[tuple[set[str], list[int]]] = []
    for i, item in enumerate(items):
        needed = set(kinds(item))
        joined = [lane for lane in found if lane[0] & needed]
        found = [lane for lane in found if not lane[0] & needed]
        members = sorted([i, *(one for _, several in joined for one in several)])
        found.append((needed.union(*(names for names, _ in joined)), members))
    return [[items[i] for i in members] for _, members in found]


def side_by_side(several: Sequence[Sequence[T]], run: Callable[[T, Clusters], None]) -> None:
    """Run the items of each lane in turn, and lanes beside each other; a single one right here.

    A failure ends its own lane, and is raised once the others have come to their end. Ctrl-C, and
    whatever else ends the waiting, takes all clusters down first.
    """
    clusters = Clusters()

    def in_turn(items: Sequence[T]) -> None:
        for item in items:
            run(item, clusters)

    if len(several) == 1:
        in_turn(several[0])
    elif several:
        with ThreadPoolExecutor(len(several)) as threads:
            try:
                ended = [threads.submit(in_turn, items) for items in several]
                # Again and again: a signal that another thread receives does not end a wait.
                while wait(ended, timeout=_POLL_S).not_done:
                    pass
            except BaseException:
                clusters.stop()
                raise
        for one in ended:
            one.result()
