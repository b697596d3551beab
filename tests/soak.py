"""Kills at random moments, for as long as you say: nothing lost, nothing doubled, nothing left.

`python -m tests.soak --minutes 60` prints how many moments of each kind it tried. What is checked
after each is in `_check_home` and `_check_host`; the first failure ends it with the seed.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.leftovers import left_behind
from tests.warehouse.conftest import Maker
from warehouse.check import check
from warehouse.home import CHECKOUT
from warehouse.recovery import recover
from warehouse.warehouse import read_only

STUDY = """
name: tiny
description: the smallest study that runs every probe
systems: [async_sgd, linear]
probes:
  links: {flows: [1], seconds: 1, trials: 1}
  tf_trace: {traced_steps: 10, untraced_steps: 4}
  tf_throughput: {windows: 1, window_s: 3}
test:
  - {dnn: small_cnn, image_size: 16, batch_size: 2, worker: emu.native.c25, server: emu.server,
     link_mbps: 200, workers: [1, 2]}
"""
SWEEP = """
systems: [linear]
scenarios:
  - {dnn: small_cnn, image_size: 16, batch_size: [1, 2, 4], worker: emu.native.c25,
     server: emu.server, link_mbps: 200, workers: [1, 2]}
"""
ROWS = 2
_STEPCAST = [sys.executable, "-m", "pipelines.cli.main"]
_RUNS_OF_HOME = 100
"""After so many, a new home: checks take longer with each."""
Children = Callable[..., Sequence[str]]


class Home:
    """A home that processes write to and are killed at, and what it has to have."""

    def __init__(self, folder: Path, children: Children, chance: random.Random) -> None:
        self.make, self._children, self._chance = Maker(folder), children, chance
        self._landed: set[str] = set()
        self._ledger: set[tuple[object, ...]] = set()
        self._land()

    @property
    def runs(self) -> int:
        """How many runs landed."""
        return len(self._landed)

    def _land(self) -> int:
        number = len(self._landed)
        self.make.profile(f"r{number:04}", self.make.scenario(), repeat=number + 1)
        self._landed.add(f"r{number:04}")
        return number

    def _moment(self) -> float:
        return self._chance.uniform(0, 0.5)

    def loader(self) -> None:
        """Kill a process that loads, fits and forecasts."""
        self._children(self.make.home, (f"write:{self._land()}", self._moment()))

    def two_loaders(self) -> None:
        """Kill one of two that do so at once."""
        task = f"write:{self._land()}"
        assert self._children(self.make.home, (task, -1), (task, self._moment()))[0] == "done"

    def holder(self) -> None:
        """Kill a process that holds the database while another waits for it."""
        task = f"write:{self._land()}"
        ends = self._children(self.make.home, ("hold:60", self._moment()), (task, -1))
        assert ends == ["killed", "done"], ends

    def landing(self) -> None:
        """Kill a process that lands a run; whole or not at all, the run then lands."""
        number = len(self._landed)
        self._children(self.make.home, (f"land:{number}", self._chance.uniform(0, 0.05)))
        if not (self.make.home / "landing" / f"r{number:04}").exists():
            self._land()
        self._landed.add(f"r{number:04}")

    def clock(self) -> None:
        """Kill a process, or none, while the clock steps by days."""
        self._children(self.make.home, (f"clock:{self._land()}", self._chance.choice((-1, 0.3))))

    def full_disk(self) -> None:
        """Load where the disk is full, in the end or from the start."""
        for _ in range(3):
            self._land()
        self._children(self.make.home, (f"full:{self._chance.randrange(600)}", -1))

    def check(self) -> int:
        """Load, and find each run and forecast once, nothing broken, no file left.

        Returns:
            1 if a damaged database had to be built again of what landed and of the journal, else 0.
        """
        home = self.make.home
        said = recover(home)
        damaged = int(bool(said))
        if damaged:
            shutil.rmtree(home / "damaged")
        report = self.make.warehouse.load()
        assert report.quarantined == (), report
        runs = read_only(home, "SELECT run_id FROM raw.run")["run_id"].to_list()
        assert sorted(runs) == sorted(self._landed), set(runs) ^ self._landed
        timings = read_only(home, "SELECT run_id, count(*) AS n FROM raw.timing GROUP BY run_id")
        assert set(timings["n"].to_list()) == {ROWS}
        ledger = read_only(home, "SELECT prediction_id, fit_id, value FROM pred.ledger").rows()
        assert len(ledger) == len(set(ledger))
        assert self._ledger <= set(ledger), "a forecast is lost"
        self._ledger = set(ledger)
        assert check(home).findings == ()
        names = {path.name for path in home.iterdir()} - {"answers", "graphs"}
        assert names <= {
            *("warehouse.duckdb", "history.duckdb"),
            *("landing", "journal"),
        }, names
        return damaged


class Studies:
    """A study and a sweep that are killed and go on, for real."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder, self._chance, self._number = folder, chance, 0
        self._new_home()

    def _new_home(self) -> None:
        self._number += 1
        self._home = self._folder / f"study{self._number}"
        self._home.mkdir()
        for name, text in (("tiny.yaml", STUDY), ("sweep.yaml", SWEEP)):
            (self._home / name).write_text(text)
        self._kills = 0

    def _environment(self) -> dict[str, str]:
        return os.environ | {"STEPCAST_HOME": str(self._home)}

    def _stepcast(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*_STEPCAST, *words],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def _killed(self, after_s: float, how: signal.Signals, *words: str) -> None:
        process = subprocess.Popen(
            [*_STEPCAST, *words],
            env=self._environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            process.send_signal(how)
            process.wait(120)

    def run(self) -> None:
        """End a study that measures, by one of three signals."""
        how = self._chance.choice((signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
        self._killed(self._chance.uniform(2, 40), how, "run", str(self._home / "tiny.yaml"))
        self._kills += 1
        self._stepcast("reap")
        self._check_host()
        if self._kills == 3:
            done = self._stepcast("run", str(self._home / "tiny.yaml"))
            assert done.returncode == 0, done.stderr
            self._check_runs()

    def sweep(self) -> None:
        """End a sweep; then it goes on."""
        if self._kills < 3:
            self.run()
            return
        file = str(self._home / "sweep.yaml")
        self._killed(self._chance.uniform(1, 12), signal.SIGKILL, "sweep", file, "--anew")
        done = self._stepcast("sweep", file)
        assert done.returncode == 0, done.stderr
        assert "2 of 6 scenarios are forecast" in done.stdout, done.stdout
        self._check_host()
        self._new_home()

    def _check_runs(self) -> None:
        runs = read_only(
            self._home,
            "SELECT probe, scenario_id, repeat, count(*) AS n FROM raw.run WHERE status = 'ok' "
            "GROUP BY ALL",
        )
        assert set(runs["n"].to_list()) == {1}, runs
        assert check(self._home).sound

    def _check_host(self) -> None:
        """Find no process of this home, no namespace and no control group."""
        deadline = time.monotonic() + 30
        while (left := [*self._processes(), *left_behind()]) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left, left

    def _processes(self) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"STEPCAST_HOME={self._home}\0".encode() in (path / "environ").read_bytes():
                    found.append((path / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found


def soak(minutes: float, seed: int, folder: Path) -> Counter[str]:
    """Try moments until the time is over, and return how many of each kind."""
    chance, tried = random.Random(seed), Counter[str]()
    command = [sys.executable, "-m", "tests.warehouse.crashing"]
    until = time.monotonic() + 60 * minutes
    with subprocess.Popen(
        command,
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a full disk is told each time
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def children(home: Path, *plan: tuple[str, float]) -> Sequence[str]:
            pairs = " ".join(f"{task} {seconds}" for task, seconds in plan)
            stdin.write(f"{home} {pairs}\n")
            stdin.flush()
            return stdout.readline().split()[1:]

        studies = Studies(folder, chance)
        while time.monotonic() < until:
            home = Home(folder / f"home{sum(tried.values())}", children, chance)
            kinds = (
                *(home.loader, home.two_loaders, home.holder, home.landing),
                *(home.clock, home.full_disk),
            )
            while time.monotonic() < until and home.runs < _RUNS_OF_HOME:
                kind = chance.choice(kinds)
                kind()
                tried[kind.__name__] += 1
                if home.check():
                    tried[f"{kind.__name__}: a damaged database was built again"] += 1
            for study in (studies.run, studies.run, studies.run, studies.sweep):
                if time.monotonic() < until:
                    study()
                    tried[study.__name__] += 1
        process.kill()
    return tried


def main() -> None:
    """Read the options, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        try:
            tried = soak(options.minutes, options.seed, Path(folder))
        except BaseException:
            sys.stderr.write(f"seed {options.seed}\n")
            raise
    sys.stdout.write(json.dumps(tried) + "\n")


if __name__ == "__main__":
    main()
