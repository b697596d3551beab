"""Anchors of a study: scenarios that are measured every few hours, as rounds of a study of its own.

A host is slower or faster from one hour to the next, and from one start to another. What anchors
took before and after a run tells how fast it was meanwhile.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from profilers import clock
from profilers.steady import host
from studies.measuring import profile
from studies.progress import Progress
from studies.rounds import Round, open_round
from studies.study import Study
from warehouse.asks import Ask
from warehouse.landing import landed_runs
from warehouse.records import Run, Scenario

_AT_LEAST = timedelta(minutes=10)
"""Nothing is measured at the end that was measured less than so long ago."""


class Anchoring:
    """Measures the anchors of a round's study where they are due."""

    def __init__(self, round_: Round, landing: Path, progress: Progress) -> None:
        self._study = round_.study.anchoring
        every_hours = round_.study.anchors.every_hours if round_.study.anchors else 0.0
        self._every = timedelta(hours=every_hours)
        self._where = round_.backend, round_.host_id
        self._landing, self._progress = landing, progress

    def before(self, expected_s: float) -> None:
        """Measure them, if that was too long ago, or on another start of the host.

        Raises:
            ProbeFailed: a probe failed; its failed run has landed.
        """
        if self._study is not None and self._since() >= self._every:
            self._visit(self._study)

    def at_the_end(self) -> None:
        """Measure them, if anything may have been measured since.

        Raises:
            ProbeFailed: as `before`.
        """
        if self._study is not None and self._since() >= _AT_LEAST:
            self._visit(self._study)

    def _visit(self, study: Study) -> None:
        self._progress.say(f"anchors of {study.name.removesuffix('.anchors')}")
        round_ = open_round(study, _nothing, *self._where, landed_runs(self._landing))
        for probe in dict.fromkeys(need.probe for need in round_.missing):
            round_ = profile(round_, probe, self._landing, self._progress)

    def _since(self) -> timedelta:
        """Return how long ago they were all measured last, on this start of the host."""
        assert self._study is not None
        boot_id = host.description().get("boot_id")
        ours = [
            run
            for run in landed_runs(self._landing)
            if run.study == self._study.name and run.host.get("boot_id") == boot_id
        ]
        last = _last_whole(ours, len(open_round(self._study, _nothing, *self._where, ()).needs))
        return clock.now() - last if last else timedelta.max


def _last_whole(runs: list[Run], needed: int) -> datetime | None:
    """Return when the newest complete visit ended."""
    visits: dict[int, list[Run]] = {}
    for run in runs:
        if run.status == "ok":
            visits.setdefault(run.repeat, []).append(run)
    ended = [max(one.ended_at for one in of) for of in visits.values() if len(of) >= needed]
    return max(ended, default=None)


def _nothing(scenario: Scenario) -> Iterator[Ask]:
    """Ask for nothing: what is only profiled needs no system."""
    yield from ()
