"""Anchors of a study: scenarios that are measured every few hours, as rounds of a study of its own.

A host is slower or faster from one hour to the next, and from one start to another. What anchors
took before and after a run tells how fast it was meanwhile.
"""

import math
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from profilers import clock
from profilers.clusters.fleet import BACKENDS
from profilers.steady import host
from studies.measuring import profile
from studies.needs import NOBODY, expected_s, needs, starts
from studies.progress import Progress
from studies.rounds import Round, open_round
from studies.study import Study
from warehouse.landing import landed_runs
from warehouse.records import Backend, Run

ANCHORS_NAME = "measure the anchors"
"""What progress and plans call a visit."""
AT_LEAST = timedelta(minutes=10)
"""Nothing is measured at the end that was measured less than so long ago."""


class Anchoring:
    """Measures the anchors of a round's study where they are due."""

    def __init__(self, round_: Round, landing: Path, progress: Progress) -> None:
        """Take the round that is measured, where runs land, and who is told.

        Hosts of a fleet are not one host, and have no anchors.
        """
        self._study = round_.study.anchoring if round_.backend not in BACKENDS else None
        hours = round_.study.anchors.every_hours if round_.study.anchors else math.inf
        self._every_s = 3600 * hours
        self._where = round_.backend, round_.host_id
        self._landing, self._progress = landing, _Quiet(progress)

    def before(self, expected_s: float) -> None:
        """Measure them, if that was too long ago, or on another start of the host.

        Args:
            expected_s: seconds that will be measured before this is asked again.

        Raises:
            ProbeFailed: a probe failed; its failed run has landed.
        """
        if self._study is not None and self._since_s(self._study) >= self._every_s:
            self._visit(self._study)

    def at_the_end(self) -> None:
        """Measure them, if anything may have been measured since.

        Raises:
            ProbeFailed: as `before`.
        """
        if self._study is not None and self._since_s(self._study) >= AT_LEAST.total_seconds():
            self._visit(self._study)

    def _visit(self, study: Study) -> None:
        self._progress.say(f"anchors of {study.name.removesuffix('.anchors')}")
        runs = [run for run in landed_runs(self._landing) if run.study == study.name]
        # What an interrupted visit left is of another hour, so it is not gone on with.
        visit = max((run.repeat for run in runs), default=0) + 1
        round_ = replace(open_round(study, NOBODY, *self._where, ()), repeat=visit)
        for probe in dict.fromkeys(need.probe for need in round_.needs):
            round_ = profile(round_, probe, self._landing, self._progress)
        self._progress.finished_all()

    def _since_s(self, study: Study) -> float:
        """Return how long ago they were all measured last, on this start of the host."""
        boot_id = host.description()["boot_id"]
        needed = len(needs(study, self._where[0], NOBODY))
        ours = [
            run
            for run in landed_runs(self._landing)
            if (run.study, run.status) == (study.name, "ok")
            and (run.backend, run.host_id) == self._where
            and run.host.get("boot_id") == boot_id
        ]
        last = _last_whole(ours, needed)
        return (clock.now() - last).total_seconds() if last else math.inf


class _Quiet(Progress):
    """Tells what runs, and not which run is finished: a run of a plan may have the same name."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def say(self, text: str) -> None:
        """Tell what runs now."""
        self._progress.say(text)

    def warn(self, text: str) -> None:
        """Tell what the user should know."""
        self._progress.warn(text)

    def finished_all(self) -> None:
        """Tell that a visit is over."""
        self._progress.finished(ANCHORS_NAME)


def visit_s(study: Study, backend: Backend) -> float:
    """Return about how many seconds its anchors take once; 0 if it has none."""
    if study.anchoring is None:
        return 0.0
    return sum(map(expected_s, starts(needs(study.anchoring, backend, NOBODY))))


def _last_whole(runs: list[Run], needed: int) -> datetime | None:
    """Return when the newest complete visit ended."""
    of: dict[int, list[Run]] = {}
    for run in runs:
        of.setdefault(run.repeat, []).append(run)
    whole = [max(one.ended_at for one in visit) for visit in of.values() if len(visit) >= needed]
    return max(whole, default=None)
