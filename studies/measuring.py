"""Running the probes a round still needs, and landing what each returns as soon as it is there."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from profilers.clusters import open_cluster
from profilers.clusters.fleet import BACKENDS, RENTED
from profilers.probe import Need, results
from profilers.probes import PROBES
from profilers.result import ProbeResult, RunContext
from profilers.steady.hostlock import host_lock
from studies.lanes import Clusters, lanes, side_by_side
from studies.needs import expected_s, nodes_of, starts
from studies.progress import Progress
from studies.rounds import Round, refreshed
from studies.settings import noted
from warehouse.durable import remove, temporary
from warehouse.landing import land, landed_runs
from warehouse.records import ProbeFailed, Purpose

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
    _run(round_, probe, "profile", landing, progress, may_take)
    return refreshed(round_, landed_runs(landing))


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
    for probe in probes:
        _run(round_, probe, "measurement", landing, progress)
    return refreshed(round_, landed_runs(landing))


def _run(
    round_: Round,
    probe: str,
    purpose: Purpose,
    landing: Path,
    progress: Progress,
    may_take: MayTake = _any_time,
) -> None:
    groups = list(starts(round_.missing_of(probe, purpose)))
    several = [groups]
    if PROBES[probe].one_node and round_.backend in BACKENDS:
        several = lanes(groups, _node_types)
    is_alone = len(several) <= 1

    def run(start: Sequence[Need], clusters: Clusters) -> None:
        seconds = expected_s(start)
        may_take(seconds)
        where = "" if is_alone else f"{' + '.join(sorted(_node_types(start)))}: "
        cluster = open_cluster(round_.backend, nodes_of(start), start[0].subject.link_mbps)
        cluster.expected_s = seconds
        last: tuple[str, ProbeResult] | None = None
        with _context(round_, purpose, landing) as context, clusters.opened(cluster):
            say = partial(_say, progress, where)
            # Land each before the next is measured: a kill loses only what is under way.
            for need, result in results(PROBES[probe], cluster, start, context, say):
                clusters.check_not_stopped()
                told = noted(result.run, need.settings)
                land(landing, told, result.scenario, result.tables, result.artefacts)
                progress.finished(need.title)
                last = need.title, result
        assert last is not None
        _raise_if_failed(*last)

    # Nothing is rented while another measurement is waited for.
    is_free = is_alone and round_.backend not in RENTED
    with nullcontext() if is_free else host_lock(progress.say):
        side_by_side(several, run)


def _node_types(start: Sequence[Need]) -> set[str]:
    return {group.node_type for group in nodes_of(start)}


def _say(progress: Progress, where: str, text: str) -> None:
    progress.say(f"{where}{text}")


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


def _raise_if_failed(name: str, result: ProbeResult) -> None:
    if result.run.status == "failed":
        raise ProbeFailed(f"{name} failed: {result.run.error}; its run has landed")
