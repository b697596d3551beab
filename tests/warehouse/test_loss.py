"""Nothing lost, nothing doubled: whatever kills, fills, garbles or renames.

`STEPCAST_MOMENTS=400 pytest tests/warehouse/test_loss.py` tries that many random moments instead
of five, and `STEPCAST_SEED=2` others.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from pipelines.cli.errors import explain
from tests.warehouse.conftest import Maker, limited
from warehouse import loader
from warehouse.check import check
from warehouse.landed_files import SUMS, seal
from warehouse.landing import REASON, read_tables
from warehouse.records import BadInput, StepcastError
from warehouse.sql import read_only

ROOT = Path(__file__).parents[2]
MOMENTS = int(os.environ.get("STEPCAST_MOMENTS", "5"))
SEED = int(os.environ.get("STEPCAST_SEED", "1"))
ROWS = 2
"""Timing rows of a profile that `Maker` lands."""


class Children:
    """Processes that work on a warehouse and are killed; see crashing.py."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def work(self, home: Path, *plan: tuple[int, float]) -> tuple[float, list[str]]:
        """Let a child work for each (number, seconds), all at once; return how long, how ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pairs = " ".join(f"{number} {seconds}" for number, seconds in plan)
        self._process.stdin.write(f"{home} {pairs}\n")
        self._process.stdin.flush()
        seconds, *ends = self._process.stdout.readline().split()
        return float(seconds), ends


@pytest.fixture
def children() -> Iterator[Children]:
    command = [sys.executable, "-m", "tests.warehouse.crashing"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Children(process)
        process.kill()


def counts(make: Maker) -> tuple[object, ...]:
    return make.rows(
        "SELECT (SELECT count(*) FROM raw.run) AS a, (SELECT count(DISTINCT run_id) FROM raw.run) "
        "AS b, (SELECT count(*) FROM raw.timing) AS c, (SELECT count(*) FROM raw.scenario) AS d"
    ).row(0)


def ledger(make: Maker) -> set[tuple[object, ...]]:
    rows = make.rows("SELECT prediction_id, fit_id, subject_id, value FROM pred.ledger").rows()
    assert len(rows) == len(set(rows))
    return set(rows)


def assert_all_there(make: Maker, runs: int) -> None:
    """Load, and find every run once, the files tidy and nothing broken."""
    report = make.warehouse.load()
    assert len(report.loaded) + report.unchanged == runs
    assert report.quarantined == ()
    assert counts(make) == (runs, runs, ROWS * runs, runs)
    assert check(make.home).findings == ()
    names = {path.name for path in make.home.iterdir()}
    assert names == {"warehouse.duckdb", "history.duckdb", "landing", "journal"}


def test_killed_at_any_moment(fresh: Maker, children: Children) -> None:
    chance = random.Random(SEED)
    fresh.profile("r0000", fresh.scenario())
    whole_s, ends = children.work(fresh.home, (0, -1))
    assert ends == ["done"]
    before, killed = ledger(fresh), 0
    for moment in range(1, MOMENTS + 1):
        fresh.profile(f"r{moment:04}", fresh.scenario(), repeat=moment)
        took_s, ends = children.work(fresh.home, (moment, chance.uniform(0, 0.8 * whole_s)))
        killed += ends == ["killed"]
        # The first of all, which made the warehouse, may have taken much longer than the others.
        whole_s = min(whole_s, took_s) if ends == ["done"] else whole_s
        assert ends != ["error"]
        assert_all_there(fresh, moment + 1)
        after = ledger(fresh)
        assert before <= after
        assert len(after) - len(before) in (0, 3)
        before = after
    assert killed > MOMENTS / 3


def test_two_at_once(fresh: Maker, children: Children) -> None:
    chance = random.Random(SEED)
    for moment in range(max(2, MOMENTS // 5)):
        fresh.profile(f"r{moment:04}", fresh.scenario(), repeat=moment + 1)
        other_s = chance.choice([-1.0, chance.uniform(0, 0.5)])
        _, ends = children.work(fresh.home, (moment, -1), (moment, other_s))
        assert ends[0] == "done"
        assert ends[1] in ("done", "killed")
        assert_all_there(fresh, moment + 1)
        assert len(ledger(fresh)) == 3 * (moment + 1)


def test_readers_see_whole_runs_during_loads(fresh: Maker, children: Children) -> None:
    fresh.profile("r0000", fresh.scenario())
    fresh.warehouse.load()
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, fresh.home],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "1 2\n"
    for moment in range(1, 3):
        fresh.profile(f"r{moment:04}", fresh.scenario(), repeat=moment)
        assert children.work(fresh.home, (moment, -1))[1] == ["done"]
    out, _ = reader.communicate("stop\n", timeout=60)
    seen = [tuple(map(int, line.split())) for line in out.splitlines()]
    assert all(rows == ROWS * runs for runs, rows in seen)
    assert seen[-1] == (3, 6)
    assert seen == sorted(seen)


READER = """
import select, sys
from pathlib import Path
from warehouse.sql import read_only
SQL = "SELECT (SELECT count(*) FROM raw.run) AS a, (SELECT count(*) FROM raw.timing) AS b"
stop = False
while True:
    print(*read_only(Path(sys.argv[1]), SQL).row(0), flush=True)
    if stop:
        break
    stop = bool(select.select([sys.stdin], [], [], 0)[0])
"""


@pytest.mark.parametrize("beyond_bytes", [-900_000, 1, 700_000])
def test_a_full_disk(make: Maker, beyond_bytes: int) -> None:
    """No file may grow beyond a limit, as on a full disk or under a quota."""
    chance = random.Random(SEED)
    make.profile("r0", make.scenario())
    make.warehouse.load()
    for number in range(1, 4):
        values = [chance.randrange(1 << 30) for _ in range(20_000)]
        timing = pl.DataFrame({"step": values, "operation": values, "start_us": values})
        tables = {"timing": timing.with_columns(duration_us=pl.col("step"))}
        make.land(make.run(f"r{number}", None, "profile"), None, tables)
    limit = (make.home / "warehouse.duckdb").stat().st_size + beyond_bytes
    with limited(limit), pytest.raises(StepcastError, match=r"free disk|not publ") as caught:
        make.warehouse.load()
    assert "\n" not in str(caught.value)
    assert read_only(make.home, "FROM raw.run").height == 1
    report = make.warehouse.load()
    assert len(report.loaded) + report.unchanged == 4
    assert report.quarantined == ()
    assert read_only(make.home, "FROM raw.timing").height == 60_000 + ROWS
    assert check(make.home).findings == ()


def test_a_full_disk_is_no_fault_of_a_run(make: Maker) -> None:
    """A commit fails that does not fit into the log; what was noted before it is not lost."""
    chance = random.Random(SEED)
    make.profile("r0", make.scenario())
    make.warehouse.load()
    (make.profile("broken", make.scenario()) / "run.parquet").unlink()
    for number in range(40):
        values = [chance.randrange(1 << 30) for _ in range(20_000)]
        edge = pl.DataFrame({"source": values, "target": values[::-1]})
        make.land(make.run(f"r{number:02}", None, "profile"), None, {"edge": edge})
    with limited(3_000_000), pytest.raises(StepcastError, match=r"commit.*free disk") as caught:
        make.warehouse.load()
    code, line = explain(caught.value)
    assert code == 1
    assert "\n" not in line
    assert re.search(r"; \d+ runs were loaded before; broken was set aside: run.parquet is ", line)
    assert [path.name for path in (make.home / "landing" / "quarantine").iterdir()] == ["broken"]
    assert len(make.warehouse.load().loaded) > 0
    assert read_only(make.home, "FROM raw.run").height == 41


def test_a_reason_is_written_over_a_link_and_not_through_it(make: Maker, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder = make.profile("r1", make.scenario())
    (folder / REASON).symlink_to(precious)
    (aside,) = make.warehouse.load().quarantined
    assert aside.reason == "reason.txt is a symbolic link; put the file itself in its place"
    assert precious.read_text() == "mine"
    assert (aside.folder / REASON).read_text() == aside.reason + "\n"


def test_a_landing_that_does_not_fit_leaves_nothing(make: Maker) -> None:
    with limited(200), pytest.raises(StepcastError, match=r"r1 did not land in .*File too large"):
        make.profile("r1", make.scenario())
    assert list((make.home / "landing").iterdir()) == []
    make.profile("r1", make.scenario())
    assert make.warehouse.load().loaded == ("r1",)


def test_a_flipped_bit_never_loads(make: Maker) -> None:
    chance = random.Random(SEED)
    folder = make.profile("r1", make.scenario())
    whole = {file: file.read_bytes() for file in sorted(folder.iterdir())}
    tables = read_tables(folder)
    for _ in range(20 * MOMENTS):
        file = chance.choice(list(whole))
        garbled = bytearray(whole[file])
        garbled[chance.randrange(len(garbled))] ^= 1 << chance.randrange(8)
        file.write_bytes(garbled)
        with pytest.raises(BadInput) as caught:
            read_tables(folder)
        assert "\n" not in str(caught.value)
        file.write_bytes(whole[file])
    assert read_tables(folder) == tables


def test_damage_to_a_loaded_run_keeps_its_rows(make: Maker) -> None:
    folder = make.profile("r1", make.scenario())
    make.warehouse.load()
    (folder / "timing.parquet").write_bytes(b"PAR1")
    (finding,) = check(make.home).findings
    assert "timing.parquet is not the file that landed" in finding.text
    assert len(make.warehouse.load().quarantined) == 1
    assert counts(make) == (1, 1, ROWS, 1)
    assert check(make.home).sound


def test_a_clock_that_jumps_back(make: Maker) -> None:
    """Runs that end before they start, or before those that came earlier, are kept like others."""
    backwards = make.run("r1", make.scenario(), "profile", minute=50)
    backwards = backwards.model_copy(update={"ended_at": backwards.started_at - timedelta(hours=9)})
    make.land(backwards, make.scenario())
    make.warehouse.load()
    fit = make.fit("r1")
    make.warehouse.record(fits=[fit])
    for minute, workers in ((90, 2), (10, 3)):
        prediction = make.prediction(fit, make.scenario(workers), workers, minute=minute)
        assert make.warehouse.record([prediction]) == 1
        assert make.warehouse.record([prediction]) == 0
    make.measure("m2", make.scenario(2), [2.0], minute=20)
    make.measure("m3", make.scenario(3), [2.0], minute=20)
    make.warehouse.load()
    assert make.rows("FROM raw.run").height == 3
    assert len(ledger(make)) == 2
    assert make.warehouse.query("judged")["predicted"].to_list() == [2.0, 3.0]
    assert check(make.home).findings == ()


@pytest.mark.parametrize("when", ["signature_of", "checked_files", "columns_of"])
def test_a_folder_renamed_half_way(make: Maker, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    folder = make.profile("r1", make.scenario())
    make.profile("r2", make.scenario(), repeat=2)
    whole, away = getattr(loader, when), folder.with_name(".away")

    def renaming(path: Path) -> object:
        if folder in (path, path.parent) and folder.exists():
            folder.rename(away)
        return whole(path)

    monkeypatch.setattr(loader, when, renaming)
    report = make.warehouse.load()
    assert (report.loaded, report.quarantined) == (("r2",), ())
    away.rename(folder)
    monkeypatch.setattr(loader, when, whole)
    assert_all_there(make, 2)


def test_a_folder_under_another_name_is_set_aside(make: Maker) -> None:
    folder = make.profile("r1", make.scenario())
    folder.rename(folder.with_name("r7"))
    (aside,) = make.warehouse.load().quarantined
    assert aside.reason == "run.parquet holds rows of other runs: ['r1']"


def test_checksums_are_those_of_sha256sum(make: Maker) -> None:
    folder = make.profile("r1", make.scenario())
    subprocess.run(["sha256sum", "--check", SUMS], cwd=folder, check=True, timeout=10)
    files = sorted(file.name for file in folder.glob("*.parquet"))
    summed = subprocess.run(
        ["sha256sum", *files], cwd=folder, check=True, timeout=10, capture_output=True, text=True
    )
    assert summed.stdout == (folder / SUMS).read_text()
    (folder / SUMS).unlink()
    assert set(read_tables(folder)) == {"run", "scenario", "timing"}
    seal(folder)
    (folder / "edge.parquet").write_bytes((folder / "timing.parquet").read_bytes())
    with pytest.raises(BadInput):
        read_tables(folder)


def test_killed_while_making_the_warehouse(
    fresh: Maker, children: Children, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    for trial in range(max(3, MOMENTS // 4)):
        make = type(fresh)(tmp_path / f"home{trial}")
        make.profile("r0000", make.scenario())
        children.work(make.home, (0, chance.uniform(0, 0.4)))
        assert_all_there(make, 1)


def test_a_run_that_is_cut_short_never_loads(make: Maker) -> None:
    chance = random.Random(SEED)
    for number in range(MOMENTS):
        folder = make.profile(f"r{number}", make.scenario())
        file = chance.choice(sorted(folder.glob("*.parquet")))
        if chance.random() < 0.2:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[: chance.randrange(file.stat().st_size)])
    make.profile("whole", make.scenario())
    report = make.warehouse.load()
    assert report.loaded == ("whole",)
    assert len(report.quarantined) == MOMENTS
    assert not any("\n" in run.reason for run in report.quarantined)
    assert counts(make) == (1, 1, ROWS, 1)
    check_report = check(make.home)
    assert check_report.sound
    assert len(check_report.findings) == MOMENTS
