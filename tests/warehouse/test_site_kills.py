"""Two sites and a loader, killed at random moments: nothing is lost, nothing doubled.

`STEPCAST_MOMENTS=400 pytest tests/warehouse/test_site_kills.py` kills that many processes at each
kind of place, and `STEPCAST_SEED=2` at other moments.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.warehouse.site_children import ROWS
from warehouse.check import check
from warehouse.landing import QUARANTINE, run_folders
from warehouse.sites import prefix_of
from warehouse.transfer import RECEIVED

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

ROOT = Path(__file__).parents[2]
MOMENTS = int(os.environ.get("STEPCAST_MOMENTS", "5"))
SEED = int(os.environ.get("STEPCAST_SEED", "1"))
WORKS = ("site", "site", "loader")


@dataclass(frozen=True)
class Sites:
    """Two sites and a loader, whose processes are asked for."""

    process: "subprocess.Popen[str]"
    homes: tuple[Path, Path, Path]
    place: str

    def work(self, moment: int, *ends: list[Any] | None) -> dict[str, Any]:
        """Let each work at once, to its end."""
        plan = [
            [work, str(home), self.place, f"{home.name}-{moment:04}", end]
            for work, home, end in zip(WORKS, self.homes, ends, strict=True)
        ]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(plan) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert "error" not in answer["ends"]
        return answer


@pytest.fixture
def sites(place: str, make: "Maker", tmp_path: Path) -> Iterator[Sites]:
    homes = tmp_path / "north", tmp_path / "south", make.home
    command = [sys.executable, "-m", "tests.warehouse.site_children"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Sites(process, homes, place)
        process.kill()


def some_end(chance: random.Random, seconds: float, events: int) -> list[Any]:
    """Return how a process is to end: half of them between two things that they do."""
    if chance.random() < 0.5:
        return ["event", chance.randint(1, events)]
    return ["time", chance.uniform(0, 0.9 * seconds)]


def test_nothing_is_lost_and_nothing_doubled(sites: Sites, make: "Maker") -> None:
    chance = random.Random(SEED)
    first, second = (sites.work(moment, None, None, None) for moment in (0, 1))
    seconds = max(first["seconds"], second["seconds"])
    events = [max(pair) for pair in zip(first["events"], second["events"], strict=True)]
    moment, killed = 1, 0
    while killed < MOMENTS:
        moment += 1
        ends = [some_end(chance, seconds, count) for count in events]
        killed += sites.work(moment, *ends)["ends"].count("killed")
        assert moment < 10 * MOMENTS, "hardly any process was killed"
    sites.work(moment + 1, None, None, None)
    sites.work(moment + 1, None, None, None)  # the loader, after the sites have ended
    assert_each_once(sites, make)


def assert_each_once(sites: Sites, make: "Maker") -> None:
    """Every run that has landed at a site is in the history once, as it landed."""
    north, south, _ = sites.homes
    landed = {run.name: run for home in (north, south) for run in run_folders(home / "landing")}
    assert len(landed) > 4
    assert set(prefix_of(sites.place).runs()) == set(landed)
    rows = make.rows("SELECT run_id, sequence FROM meta.loaded ORDER BY sequence")
    assert rows["sequence"].to_list() == list(range(1, len(landed) + 1))
    assert sorted(rows["run_id"]) == sorted(landed)
    assert sorted(make.rows("SELECT run_id FROM raw.run")["run_id"]) == sorted(landed)
    counted = make.rows("SELECT run_id, count(*) AS rows FROM raw.timing GROUP BY run_id")
    assert dict(counted.rows()) == dict.fromkeys(landed, ROWS)
    assert check(make.home).findings == ()
    landing = make.home / "landing"
    assert {path.name for path in landing.iterdir()} == set(landed)
    assert not (landing / QUARANTINE).exists()
    for name, folder in landed.items():
        whole = {path.name: path.read_bytes() for path in folder.iterdir()}
        came = {path.name: path.read_bytes() for path in (landing / name).iterdir()}
        assert came.pop(RECEIVED)
        assert came == whole
