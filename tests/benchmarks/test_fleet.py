"""A fleet on recorded probes: what is due, the change that is made, and nothing twice."""

import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from benchmarks import fleet
from benchmarks.fleet import (
    BEGAN,
    Replay,
    declare,
    grow,
    living_in,
    measure_in,
    replay_night,
)
from studies.messages import Progress
from studies.rounds import Round
from warehouse.warehouse import read_only

NAMES = [f"lab.{number:04}" for number in range(4)]
NIGHTS = 10
CHANGES_ON = NIGHTS - 4
"""The night, from 0, on which the first member is slower for the first time."""
SUNDAYS = (0, 7)


def runs_of(home: Path) -> pl.DataFrame:
    """Return study, probe, repeat and night of each run."""
    return read_only(
        home,
        "SELECT study, probe, repeat, "
        "date_diff('day', DATE '2030-01-06', started_at::DATE) AS night FROM raw.run ORDER BY ALL",
    )


def confirmed_of(home: Path) -> list[tuple[str, int]]:
    """Return the node types whose change was confirmed, each with the night."""
    return read_only(
        home,
        "SELECT DISTINCT node_type, date_diff('day', DATE '2030-01-06', raised_at::DATE) "
        "FROM report.alarm WHERE confirmed AND outcome = 'slower' ORDER BY ALL",
    ).rows()


def replayed(home: Path, nights: int) -> Replay:
    """Declare a fleet in a home that is this process's, and replay its first nights."""
    declare(home, NAMES)
    replay = Replay(fleet.recorded(), NAMES, NIGHTS)
    for night in range(nights):
        replay_night(home, replay, night)
    return replay


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home of all nights before the change. Tests copy it."""
    home = tmp_path_factory.mktemp("fleet")
    with living_in(home):
        replayed(home, CHANGES_ON)
    return home


@pytest.fixture
def copied(quiet: Path, tmp_path: Path) -> Path:
    """Return a copy of that home."""
    return Path(shutil.copytree(quiet, tmp_path / "home"))


def test_each_member_is_watched_each_night_and_profiled_each_sunday(copied: Path) -> None:
    with living_in(copied):
        replay = Replay(fleet.recorded(), NAMES, NIGHTS)
        for night in range(CHANGES_ON, NIGHTS):
            replay_night(copied, replay, night)
    runs = runs_of(copied)
    assert not runs.select("study", "probe", "repeat").filter(probe="watch").is_duplicated().any()
    for name in NAMES:
        of_type = runs.filter(study=f"watch.{name}")
        assert set(of_type.filter(probe="watch")["night"]) == set(range(NIGHTS))
        assert of_type.filter(probe="drift")["night"].to_list() == list(range(NIGHTS))
    visits = runs.filter(probe="links")
    changed, *others = (visits.filter(study=f"fleet.{name}")["night"].to_list() for name in NAMES)
    assert others == [[*SUNDAYS]] * 3
    assert changed == sorted({*SUNDAYS, CHANGES_ON}), "the change makes a visit due at once"
    assert confirmed_of(copied) == [(NAMES[0], CHANGES_ON)], "found on its first night, once"


@dataclass
class DyingReplay(Replay):
    """Machines of a process that dies once so many runs have landed."""

    left: int = 0

    def measure(self, round_: Round, probe: str, landing: Path, progress: Progress) -> Round:
        """Land a run, or die before or after that."""
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        after = super().measure(round_, probe, landing, progress)
        if not self.left:
            raise KeyboardInterrupt
        return after


@pytest.mark.parametrize(("landed", "probes"), [(1, 2), (4, 2), (5, 3)])
def test_a_night_that_died_goes_on_and_does_nothing_twice(
    copied: Path, landed: int, probes: int
) -> None:
    """It dies among first probes, after the last of them, or after a second one.

    That one is then judged as a first one: it is the newest that nobody has judged.
    """
    later = BEGAN + timedelta(days=CHANGES_ON, hours=1)
    with living_in(copied):
        recorded = fleet.recorded()
        with pytest.raises(KeyboardInterrupt):
            replay_night(copied, DyingReplay(recorded, NAMES, NIGHTS, left=landed), CHANGES_ON)
        replay = Replay(recorded, NAMES, NIGHTS, now=later)
        replay_night(copied, replay, CHANGES_ON)
        once = runs_of(copied)
        replay_night(copied, replay, CHANGES_ON)
    assert runs_of(copied).equals(once), "the same night again has nothing to do"
    assert confirmed_of(copied) == [(NAMES[0], CHANGES_ON)]
    tonight = once.filter(night=CHANGES_ON)
    counts = Counter(tonight.select("study", "probe").rows())
    assert [counts[f"watch.{name}", "drift"] for name in NAMES] == [1] * 4
    assert [counts[f"watch.{name}", "watch"] for name in NAMES] == [probes, 1, 1, 1]
    assert [counts[f"fleet.{name}", "links"] for name in NAMES] == [1, 0, 0, 0]


def test_copied_nights_are_history_to_those_that_follow(copied: Path) -> None:
    with living_in(copied):
        grow(copied, CHANGES_ON, 2)
        replay_night(copied, Replay(fleet.recorded(), NAMES, 30), 3 * CHANGES_ON)
        runs = runs_of(copied)
        earlier = read_only(
            copied, "SELECT earlier_n FROM raw.judgement ORDER BY run_id DESC LIMIT 1"
        )
    assert runs.filter(probe="watch", study=f"watch.{NAMES[1]}")["night"].to_list() == list(
        range(3 * CHANGES_ON + 1)
    )
    assert earlier.item() == 3 * CHANGES_ON


def test_a_report_tells_what_a_fleet_takes(tmp_path: Path) -> None:
    with living_in(tmp_path):
        outcome = measure_in(tmp_path, {"members": 2, "days": 6, "replayed": 2}, lambda _: None)
    runs = 2 * 6 * 2 + 2 * 3
    start = f"2 members, 6 days; 4 nights were replayed. {runs} runs, "
    assert outcome.notes[0].startswith(start), "watches and judges each night, visits each copy"
    assert {"fleet list", "fleet status", "fleet page"} <= {*outcome.table["what"]}
    assert (outcome.table["value"] > 0).all()
    assert (tmp_path / "fleet.html").exists()
