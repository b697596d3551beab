"""Sets hold the rows that landed, and what is wrong with them is said in one line."""

import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from studies import run_tables
from tests.pipelines.ran import stepcast
from tests.warehouse.conftest import Maker
from warehouse import sets as run_sets
from warehouse.landed_files import SUMS, seal
from warehouse.landing import land, landed_runs, read_tables
from warehouse.records import BadInput, StepcastError
from warehouse.sets import REPLACED, Sets, copy_kept_runs, is_sets, kept_runs, kept_tables, pack
from warehouse.tables import CHUNK_ROWS, stream

DAYS = ["2030-01-01", "2030-01-02"]


@pytest.fixture
def landing(make: Maker) -> Path:
    """Return a landing folder: p1 and m1 on one day, links and n1 on the next."""
    scenario, late = make.scenario(2), 24 * 60 + 1
    edge = [
        pl.DataFrame({"source": [4, 3, 1, 2][k:], "target": [k] * (4 - k)}).cast(pl.Int32)
        for k in range(4)
    ]
    ticks = {"step": [0, 0], "operation": [0, 1], "start_us": [0, 40], "duration_us": [40, 9]}
    p1 = {"timing": pl.DataFrame(ticks), "edge": edge[0]}
    make.land(make.run("p1", scenario, "profile"), scenario, p1)
    sample = pl.DataFrame({"metric": ["a", "b"], "unit": ["s", "s"], "value": [1.5, None]})
    m1, n1 = {"sample": sample, "edge": edge[1]}, {"sample": sample[:1], "edge": edge[3]}
    make.land(make.run("m1", scenario, "measurement", minute=3), scenario, m1)
    make.land(make.run("links", None, "profile", minute=late), None, {"edge": edge[2]})
    make.land(make.run("n1", scenario, "measurement", minute=late), scenario, n1)
    return make.home / "landing"


@pytest.fixture
def sets(landing: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "sets"
    assert pack(landing, folder, ["n1", "p1", "m1", "links"]) == 4
    return folder


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a home beside that of the runs."""
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "second"))
    return tmp_path / "second"


def test_every_row_comes_back(landing: Path, sets: Path, tmp_path: Path) -> None:
    assert sorted(path.name for path in sets.iterdir()) == DAYS
    assert is_sets(sets) and not is_sets(landing) and not is_sets(tmp_path / "none")
    assert kept_runs(sets) == kept_runs(landing) == landed_runs(landing)
    again = tmp_path / "again"
    assert copy_kept_runs(sets, again, ["p1", "links"]) == 2
    assert copy_kept_runs(sets, again, ["p1", "links", "m1", "n1"]) == 2
    assert landed_runs(again) == landed_runs(landing)
    for run in landed_runs(landing):
        expected = read_tables(landing / run.run_id)
        assert read_tables(again / run.run_id) == expected
        assert kept_tables(sets, run.run_id) == kept_tables(landing, run.run_id) == expected
        packed = run_tables.tables(sets, run)
        assert all(
            packed[name].equals(rows) for name, rows in run_tables.tables(landing, run).items()
        )
    assert not list(again.glob(".*"))


def test_sets_are_plain_parquet(sets: Path) -> None:
    samples = duckdb.sql(f"SELECT run_id, value FROM '{sets}/*/sample.parquet' ORDER BY ALL")
    assert samples.fetchall() == [("m1", 1.5), ("m1", None), ("n1", 1.5)]


def test_one_run_is_found_without_reading_the_others(make: Maker, tmp_path: Path) -> None:
    rows = pl.DataFrame({"source": pl.arange(CHUNK_ROWS + 7, eager=True)}).cast(pl.Int32)
    names = ["e1", "e2", "e3"]
    for number, name in enumerate(names):
        table = rows.with_columns(target=pl.lit(number, pl.Int32))
        make.land(make.run(name, None, "profile"), None, {"edge": table})
    pack(make.home / "landing", tmp_path / "sets", names)
    file = tmp_path / "sets" / DAYS[0] / "edge.parquet"
    metadata = pq.read_metadata(file)
    groups = [metadata.row_group(index).column(0).statistics for index in range(3)]
    assert [(group.min, group.max) for group in groups] == [(name, name) for name in names]
    damaged = bytearray(file.read_bytes())
    of_others = metadata.row_group(0).column(1).data_page_offset + 9
    damaged[of_others : of_others + 99] = bytes(99)
    file.write_bytes(damaged)
    assert sum(map(len, stream(file, ["e2"]))) == CHUNK_ROWS + 7
    with pytest.raises(BadInput):
        list(stream(file))


def flip(sets: Path) -> None:
    file = sets / DAYS[0] / "timing.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def link(sets: Path) -> None:
    file = sets / DAYS[0] / "timing.parquet"
    file.rename(sets / "elsewhere")
    file.symlink_to(sets / "elsewhere")


def double(sets: Path) -> None:
    file = sets / DAYS[0] / "run.parquet"
    table = pq.read_table(file)
    pq.write_table(table.take([0, 0]), file)
    seal(file.parent)


def add_landed(sets: Path) -> None:
    (sets / "r9").mkdir()
    shutil.copy(sets / DAYS[0] / "run.parquet", sets / "r9")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (flip, "timing.parquet is not the file that landed"),
        (lambda sets: (sets / DAYS[0] / "timing.parquet").unlink(), "timing.parquet is missing"),
        (lambda sets: (sets / DAYS[0] / SUMS).unlink(), "SHA256SUMS is missing"),
        (lambda sets: (sets / DAYS[1] / "source.parquet").touch(), "source.parquet came after"),
        (double, "run m1 is there twice, in 2030-01-01"),
        (link, "timing.parquet is a symbolic link"),
        (add_landed, "holds sets and the landed run r9"),
        (lambda sets: (sets / DAYS[0]).rename(sets / (REPLACED + DAYS[0])), "lacks 2030-01-01"),
    ],
)
def test_bad_sets_are_refused_in_one_line(
    sets: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(sets)
    with pytest.raises(BadInput, match=why) as raised:
        kept_runs(sets)
    assert "\n" not in str(raised.value)


def break_metadata(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:-200] + b"\xff" * 192 + content[-8:])


def test_a_damaged_file_whose_checksum_fits_is_refused(sets: Path, tmp_path: Path) -> None:
    file = sets / DAYS[0] / "timing.parquet"
    break_metadata(file)
    seal(file.parent)
    with pytest.raises(
        BadInput, match=r"set .*2030-01-01: timing\.parquet is not readable Parquet: "
    ):
        copy_kept_runs(sets, tmp_path / "again", ["p1"])
    assert not list((tmp_path / "again").glob("*"))


def test_commands_refuse_bad_sets(sets: Path, second: Path) -> None:
    flip(sets)
    for command in ("load", "reproduce"):
        answer = stepcast(command, str(sets))
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert "timing.parquet is not the file that landed" in answer.err


def test_a_run_that_is_not_there_is_said(sets: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="sets holds no run r9"):
        kept_tables(sets, "r9")
    with pytest.raises(BadInput, match="sets holds no run r9"):
        copy_kept_runs(sets, tmp_path / "again", ["p1", "r9"])
    assert not (tmp_path / "again").exists()


def test_sets_that_change_are_read_again(make: Maker, sets: Path) -> None:
    assert len(kept_runs(sets)) == 4
    make.land(make.run("p2", None, "profile"), None)
    pack(make.home / "landing", sets, ["p2"])
    assert len(kept_runs(sets)) == 5


def test_sets_are_loaded(sets: Path, second: Path) -> None:
    answer = stepcast("load", str(sets))
    assert answer.code == 0, answer.err
    assert answer.out.splitlines() == [
        f"copied 4 runs from {sets}",
        "loaded 4 runs, 0 were there already",
    ]
    again = stepcast("load", str(sets)).out.splitlines()
    assert again == [f"copied 0 runs from {sets}", "loaded 0 runs, 4 were there already"]


def test_a_day_is_that_of_utc(make: Maker, tmp_path: Path) -> None:
    run = make.run("late", None, "profile", minute=24 * 60 - 1)
    run = run.model_copy(update={"ended_at": run.started_at + timedelta(hours=2)})
    land(make.home / "landing", run, None, {})
    pack(make.home / "landing", tmp_path / "sets", ["late"])
    assert [path.name for path in (tmp_path / "sets").iterdir()] == DAYS[:1]
    assert Sets(tmp_path / "sets").runs() == [run]


NAMES = ["links", "m1", "n1", "p1"]


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(NAMES), cut=st.integers(0, 4))
def test_in_whichever_order_runs_are_added_the_sets_are_equal(
    landing: Path, tmp_path_factory: pytest.TempPathFactory, order: list[str], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    whole, parts = folder / "whole", folder / "parts"
    assert pack(landing, whole, NAMES) == 4
    assert pack(landing, parts, order[:cut]) + pack(landing, parts, order) == 4
    bytes_of = [
        {name: data for name, (data, _) in content(packed).items()} for packed in (whole, parts)
    ]
    assert bytes_of[0] == bytes_of[1]
    for name in NAMES:
        assert kept_tables(parts, name) == read_tables(landing / name)


def test_what_is_there_is_left_alone(landing: Path, tmp_path: Path) -> None:
    sets = tmp_path / "sets"
    assert pack(landing, sets, ["p1", "n1"]) == 2
    before = content(sets)
    assert pack(landing, sets, ["p1", "n1"]) == 0
    assert content(sets) == before
    assert pack(landing, sets, ["m1", "p1"]) == 1
    after = content(sets)
    assert all(after[name] == before[name] for name in before if name.startswith("2030-01-02"))
    for name in ("2030-01-01/run.parquet", "2030-01-01/edge.parquet"):
        assert after[name] != before[name]


def test_artefacts_are_refused_or_left_out(make: Maker, tmp_path: Path) -> None:
    trace = tmp_path / "trace.pb"
    trace.write_bytes(b"bytes")
    landing = make.home / "landing"
    land(landing, make.run("r1", None, "profile"), None, {}, {"trace.pb": trace})
    with pytest.raises(BadInput, match="run r1 was not packed: it has raw artefacts"):
        pack(landing, tmp_path / "sets", ["r1"])
    assert pack(landing, tmp_path / "sets", ["r1"], artefacts=False) == 1
    assert kept_tables(tmp_path / "sets", "r1").keys() == {"run"}


def test_a_run_that_is_not_as_it_landed_is_refused(landing: Path, tmp_path: Path) -> None:
    file = landing / "m1" / "sample.parquet"
    file.write_bytes((landing / "n1" / "sample.parquet").read_bytes())
    with pytest.raises(BadInput, match=r"run m1 was not packed: .* holds rows of other"):
        pack(landing, tmp_path / "sets", NAMES)
    assert not list((tmp_path / "sets").iterdir())


def test_a_full_disk_changes_nothing(
    landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = tmp_path / "sets"
    pack(landing, sets, ["p1", "n1"])
    before = content(sets)

    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_sets, "seal", full)
    with pytest.raises(StepcastError, match=r"were not packed into .*No space left"):
        pack(landing, sets, NAMES)
    assert content(sets) == before


@pytest.mark.parametrize("moment", [1, 2])
def test_a_writer_that_is_killed_leaves_what_the_next_one_mends(
    landing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Before the old day went, or between its going and the coming of the new one."""
    sets = tmp_path / "sets"
    pack(landing, sets, ["p1"])
    rename, calls = os.rename, iter(range(1, 9))

    def killed(*paths: Any) -> None:
        if next(calls) == moment:
            raise KeyboardInterrupt
        rename(*paths)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            pack(landing, sets, ["m1", "p1"])
    if moment == 2:
        assert (sets / f"{REPLACED}2030-01-01").exists()
        with pytest.raises(BadInput, match=r"rename \.replaced-2030-01-01 in it to 2030-01-01"):
            kept_runs(sets)
    assert pack(landing, sets, ["m1", "p1"]) == 1
    assert [run.run_id for run in kept_runs(sets)] == ["m1", "p1"]
    assert [path.name for path in sets.iterdir()] == ["2030-01-01"]
