"""Running the probes a round still needs, and landing their runs."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from profilers.clusters import open_cluster
from profilers.clusters.fleet import RENTED
from profilers.probe import Session, measure_planned_runs
from profilers.probes import PROBES
from profilers.steady.hostlock import host_lock
from studies.messages import Progress
from studies.planned_runs import expected_s, group_by_start, nodes_of
from studies.rounds import Round, refresh_round
from studies.run_settings import with_settings
from warehouse.durable_files import scratch
from warehouse.landing import land
from warehouse.records import ProbeFailed, Purpose, Run

MayTake = Callable[[float], None]
"""Told the seconds that what comes next is expected to take; raises if there is no time for it."""


def _any_time(expected_s: float) -> None:
    """Let everything take as long as it does."""


def profile(
    round_: Round, probe: str, landing: Path, progress: Progress, may_take: MayTake = _any_time
) -> Round:
    """Run what the round lacks of one probe for predictors to see; return the round as it is then.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed.
        StepcastError: as `may_take`, which is asked before each start of programs.
    """
    landed = _run(round_, probe, "profile", landing, progress, may_take)
    return _with(round_, landed)


def measure(
    round_: Round, landing: Path, progress: Progress, probes: Sequence[str] = tuple(PROBES)
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
    landing.mkdir(parents=True, exist_ok=True)
    # Nothing is rented while another measurement is waited for.
    with host_lock(progress.say) if round_.backend in RENTED else nullcontext():
        for start in group_by_start(round_.missing_of(probe, purpose)):
            seconds = expected_s(start)
            may_take(seconds)
            cluster = open_cluster(round_.backend, nodes_of(start), start[0].subject.link_mbps)
            cluster.expected_s = seconds
            with scratch(landing) as folder:
                folder.mkdir()  # before nodes are rented
                with cluster:
                    session = Session(
                        cluster, folder, progress.say, round_.study.name, round_.repeat
                    )
                    # Land each before the next is measured: a kill loses only what is under way.
                    for need, result in measure_planned_runs(PROBES[probe], session, start):
                        record = with_settings(result.run, need.settings)
                        land(landing, record, result.scenario, result.tables, result.artefacts)
                        landed.append(record)
                        progress.finished(need.title)
            if record.status == "failed":
                raise ProbeFailed(f"{need.title} failed: {record.error}; its run has landed")
    return landed
