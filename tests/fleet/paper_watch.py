"""A probe that watches nothing: it lands figures that a test chooses."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fleet import watch as fleet_watch
from fleet.members import Member
from fleet.schedule import watches
from fleet.watch import watch
from profilers.watch import probe
from studies.messages import Progress
from studies.rounds import Round, refresh_round
from tests.fleet.made import NOW, member, watched
from warehouse.landing import land, landed_runs
from warehouse.records import ProbeFailed, Run
from warehouse.warehouse import Warehouse

USUAL: Mapping[str, float] = {
    probe.STEP_TIME: 0.02,
    probe.STEP_CPU: 0.02,
    probe.CPU_SHARE: 0.25,
    probe.MEMORY: 5e9,
    probe.TO_SERVER: 25e6,
    probe.FROM_SERVER: 25e6,
    probe.GAUGE_US: 90.0,
}
STEPS = (probe.STEP_TIME, probe.STEP_CPU)
SLOW = 1.5
"""How many times as long steps take on a type that became slow."""


@dataclass
class PaperWatch:
    """Stands in for the probe; `ahead` are the slownesses of steps of its next runs.

    After these, steps take as long as ever. None: that run fails. Each run is an hour after the one
    before.
    """

    ahead: list[float | None] = field(default_factory=list)
    asked: int = 0
    dies: bool = False
    now: datetime = NOW

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this in the place of measuring, and its clock in that of the wall."""
        monkeypatch.setattr(fleet_watch, "profile", self.profile)
        monkeypatch.setattr(fleet_watch, "now", lambda: self.now)

    def profile(self, round_: Round, name: str, landing: Path, progress: Progress) -> Round:
        """Land a run of the watch, as `studies.measurement.profile` does."""
        assert name == "watch"
        (need,) = round_.missing_of(name, "profile")
        self.asked += 1
        slowness = self.ahead.pop(0) if self.ahead else 1.0
        self.now += timedelta(hours=1)
        (run,) = watched(member(need.nodes[0].node_type), self.now, round_.repeat)
        if slowness is None:
            failed = run.model_copy(update={"status": "failed", "error": "no paper left"})
            land(landing, failed, None, {})
            raise ProbeFailed("the watch failed: no paper left; its run has landed")
        land_probe(landing, run, slowness)
        if self.dies:
            raise KeyboardInterrupt
        return refresh_round(round_, landed_runs(landing))


def land_probe(landing: Path, run: Run, slowness: float) -> None:
    """Land a run of the watch with three windows, a thousandth apart."""
    figures = {**USUAL, **{name: slowness * USUAL[name] for name in STEPS}}
    windows = [
        {name: value * (1 + 0.001 * turn) for name, value in figures.items()} for turn in range(3)
    ]
    land(landing, run, None, {"sample": probe.samples(windows)})


class Told(Progress):
    """Keeps what it is warned of."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)


def night(
    warehouse: Warehouse, of: Member, progress: Progress | None = None
) -> list[dict[str, object]]:
    """Watch a member once; return the rows of its judgement."""
    planned = watches(of, landed_runs(warehouse.landing))
    return watch(planned, warehouse, progress or Progress()).to_dicts()


def alarms(rows: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Return, by metric that raised an alarm, whether that was confirmed."""
    return {str(row["metric"]): row["confirmed"] for row in rows if row["alarm"]}
