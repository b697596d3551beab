"""Running the probes a round still needs, side by side where machines differ; landing runs."""

from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import TypeVar

from profilers.clusters import Cluster, open_cluster
from profilers.clusters.fleet import BACKENDS, RENTED
from profilers.probe import PlannedRun, RunContext, measure_planned_runs
from profilers.probes import PROBES
from profilers.steady.hostlock import host_lock
from studies.messages import Progress
from studies.planned_runs import expected_s, group_by_start, nodes_of
from studies.rounds import Round, refresh_round
from studies.run_settings import with_settings
from warehouse.durable_files import remove, temporary
from warehouse.landing import land
from warehouse.records import ProbeFailed, Purpose, Run

MayTake = Callable[[float], None]
"""Told the seconds that what comes next is expected to take; raises if there is no time for it."""


def _any_time(expected_s: float) -> None:
    """Let everything take as long as it does."""


def profile(
    round_: Round,
    probe: str,
    landing: Path,
    progress: Progress,
    may_take: MayTake = _any_time,
) -> Round:
    """Run what the round lacks of one probe for predictors to see; return the round as it is then.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed.
        StepcastError: as `may_take`, which is asked before each start of programs.
    """
    landed = _run(round_, probe, "profile", landing, progress, may_take)
    return _with(round_, landed)


def measure(
    round_: Round,
    landing: Path,
    progress: Progress,
    probes: Sequence[str] = tuple(PROBES),
) -> Round:
    """Run all that the round lacks of what judges predictions; return the round as it is then.

    Args:
        round_: that is to be measured.
        landing: where runs land.
        progress: told what runs.
        probes: only these measure.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed.
    """
    landed = [
        run for probe in probes for run in _run(round_, probe, "measurement", landing, progress)
    ]
    return _with(round_, landed)


def _with(round_: Round, landed: Sequence[Run]) -> Round:
    """Return the round with what has landed, in the order of the landing folder."""
    return refresh_round(round_, sorted([*round_.runs, *landed], key=lambda run: run.run_id))


def _run(
    round_: Round,
    probe: str,
    purpose: Purpose,
    landing: Path,
    progress: Progress,
    may_take: MayTake = _any_time,
) -> list[Run]:
    """Run what is missing of a probe, and return what has landed."""
    landed: list[Run] = []
    groups = list(group_by_start(round_.missing_of(probe, purpose)))
    several = [groups]
    if PROBES[probe].one_node and round_.backend in BACKENDS:
        several = divide_by_machine(groups, _node_types)
    is_alone = len(several) <= 1

    def run(start: Sequence[PlannedRun], clusters: Clusters) -> None:
        seconds = expected_s(start)
        may_take(seconds)
        where = "" if is_alone else f"{' + '.join(sorted(_node_types(start)))}: "
        cluster = open_cluster(round_.backend, nodes_of(start), start[0].subject.link_mbps)
        cluster.expected_s = seconds
        with _context(round_, purpose, landing) as context, clusters.opened(cluster):
            # Land each before the next is measured: a kill loses only what is under way.
            for need, result in measure_planned_runs(
                PROBES[probe], cluster, start, context, lambda text: progress.say(where + text)
            ):
                clusters.check_not_stopped()
                record = with_settings(result.run, need.settings)
                land(landing, record, result.scenario, result.tables, result.artefacts)
                landed.append(record)
                progress.finished(need.title)
        if record.status == "failed":
            raise ProbeFailed(f"{need.title} failed: {record.error}; its run has landed")

    # Nothing is rented while another measurement is waited for.
    is_free = is_alone and round_.backend not in RENTED
    with nullcontext() if is_free else host_lock(progress.say):
        run_in_parallel(several, run)
    return landed


def _node_types(start: Sequence[PlannedRun]) -> set[str]:
    return {group.node_type for group in nodes_of(start)}


@contextmanager
def _context(round_: Round, purpose: Purpose, landing: Path) -> Iterator[RunContext]:
    """Give a probe its context; its scratch folder is removed, or swept after a kill."""
    landing.mkdir(parents=True, exist_ok=True)
    scratch = temporary(landing)
    scratch.mkdir()
    try:
        yield RunContext(round_.study.name, round_.repeat, purpose, scratch)
    finally:
        remove(scratch)


# Lanes: what needs machines of its own is measured beside what needs others.
#
# Each lane has a thread, and one cluster at a time. Taking a cluster down ends what runs on it, so
# that is how lanes are stopped.


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


def divide_by_machine(items: Sequence[T], kinds: Callable[[T], Set[str]]) -> list[list[T]]:
    """Divide items into lanes that share no kind of machine; each has its items in their order."""
    lanes: list[tuple[set[str], list[int]]] = []
    for i, item in enumerate(items):
        needed = set(kinds(item))
        joined = [lane for lane in lanes if lane[0] & needed]
        lanes = [lane for lane in lanes if not lane[0] & needed]
        members = sorted([i, *(place for _, several in joined for place in several)])
        lanes.append((needed.union(*(names for names, _ in joined)), members))
    return [[items[i] for i in members] for _, members in lanes]


def run_in_parallel(several: Sequence[Sequence[T]], run: Callable[[T, Clusters], None]) -> None:
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
        for future in ended:
            future.result()
