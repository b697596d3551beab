"""The journal beside the warehouse: nothing that only the warehouse knows is lost with its file."""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.warehouse.conftest import Built, Maker, limited
from tests.warehouse.story import tell
from warehouse import durable_files, journal, upkeep
from warehouse.chain import head
from warehouse.check import check
from warehouse.journal import JournalTransaction
from warehouse.landed_files import seal
from warehouse.records import BadInput, DamagedFile, StepcastError
from warehouse.recovery import recover
from warehouse.upkeep import backup, contents, open_warehouse

OF_THE_FILE = {"meta.migration", "meta.journal"}
"""Tables that say when the file was made, and how far it is."""


def fill(make: Maker) -> None:
    """Fill every table that the journal keeps."""
    tell(make)
    fit = make.fit("p1")
    with open_warehouse(make.home) as connection:  # as earlier editions did
        rows = [("pred.decision", {"question_id": ["x"]})]
        newest = journal.append(make.home / "journal", journal.position(connection), rows)
        journal.remember(connection, newest)
    answer = make.prediction(fit, make.scenario(3), 4.0)
    answer = answer.model_copy(update={"study": None, "repeat": None})
    make.warehouse.record([answer], fits=[fit], scenarios=[make.scenario(3)])
    make.warehouse.record(fits=[fit.model_copy(update={"code_version": "v2"})])
    other = make.home / "landing" / "m1" / "sample.parquet"
    pl.read_parquet(other).write_parquet(other, compression="gzip")
    seal(other.parent)
    make.warehouse.load()


@pytest.fixture
def full(built: Built, tmp_path: Path) -> Maker:
    return built(fill, tmp_path / "home")


def held(home: Path) -> dict[str, object]:
    """Return what a warehouse holds, and where its chain ends."""
    with open_warehouse(home) as connection:
        tables = contents(connection).items()
        return {name: rows for name, rows in tables if name not in OF_THE_FILE} | {
            "head": head(connection)
        }


def rebuilt(make: Maker) -> dict[str, object]:
    """Return what a warehouse holds that is built again from what landed and the journal."""
    (make.main).unlink()
    recover(make.home)
    make.warehouse.load()
    return held(make.home)


def test_every_table_has_a_place(full: Maker) -> None:
    tables = held(full.home)
    of_the_schema = {"meta.chain", "meta.views", "head"}
    others = {
        name for name in set(tables) - of_the_schema if not name.startswith(("raw.", "catalog."))
    }
    assert others == set(journal.TABLES)
    assert all(tables[name] != (0, 0) for name in others)


def test_an_empty_home_gets_all_back(full: Maker, tmp_path: Path) -> None:
    before = held(full.home)
    fresh = type(full)(tmp_path / "other")
    fresh.home.mkdir()
    for folder in ("landing", "journal"):
        shutil.copytree(full.home / folder, fresh.home / folder)
    assert recover(fresh.home) == ["1 fits and 2 predictions are back from journal/"]
    report = fresh.warehouse.load()
    assert report.quarantined == ()
    assert report.unchanged == 0
    assert held(fresh.home) == before
    assert check(fresh.home).sound
    assert fresh.warehouse.load().loaded == ()
    assert recover(fresh.home) == []


def flipped(place: float) -> Callable[[bytes], bytes]:
    """Return what flips 60 bytes: DuckDB's sums miss an even number of equal words that change."""

    def damage(whole: bytes) -> bytes:
        start = int(place * (len(whole) - 60))
        flips = bytes(byte ^ 0xFF for byte in whole[start : start + 60])
        return whole[:start] + flips + whole[start + 60 :]

    return damage


def sieve(whole: bytes) -> bytes:
    """Damage every block."""
    damaged = bytearray(whole)
    for start in range(12_288 + 100, len(whole), 262_144):
        damaged[start] ^= 1
    return bytes(damaged)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "magic": lambda whole: whole[:8] + b"XXXX" + whole[12:],
    "later headers": lambda whole: whole[:4096] + bytes(8192) + whole[12_288:],
    "every block": sieve,
    "truncated in the middle": lambda whole: whole[: len(whole) // 2],
    "tail is gone": lambda whole: whole[:-1],
    "zero length": lambda whole: b"",
    "at 0.30": flipped(0.3),
}


@pytest.mark.parametrize("where", DAMAGES)
def test_a_damaged_warehouse_is_built_again(full: Maker, where: str) -> None:
    before, main = held(full.home), full.main
    whole = main.read_bytes()
    damaged = DAMAGES[where](whole)
    assert damaged != whole
    main.write_bytes(damaged)
    lines = recover(full.home)
    if not lines:  # a byte that no table and no index has
        assert where.startswith("at ")
        assert held(full.home) == before
        return
    assert lines[0].startswith("warehouse.duckdb was damaged; it is in ")
    assert lines[1:] == ["1 fits and 2 predictions are back from journal/"]
    (away,) = (full.home / "damaged").iterdir()
    assert (away / "warehouse.duckdb").read_bytes() == damaged
    assert (away / "reason.txt").read_text().count("\n") == 1
    full.warehouse.load()
    assert held(full.home) == before
    assert check(full.home).sound


def equal_words(whole: bytes, block: int) -> list[int]:
    """Return the places of two equal words of a block; its checksum stays if both change alike."""
    seen: dict[bytes, int] = {}
    for place in range(block + 8, min(block + 262_144, len(whole)), 8):
        word = whole[place : place + 8]
        if (first := seen.setdefault(word, place)) < place and any(word):
            return [first, place]
    return []


def test_rot_that_no_checksum_of_duckdb_tells_is_mended(full: Maker) -> None:
    main = full.main
    with open_warehouse(full.home, read_only=True) as connection:
        before = contents(connection)
    whole, state = main.read_bytes(), main.stat()
    for block in range(12_288, len(whole), 262_144):
        damaged = bytearray(whole)
        for place in equal_words(whole, block):
            damaged[place + 7] ^= 16
        main.write_bytes(damaged)
        os.utime(main, ns=(state.st_atime_ns, state.st_mtime_ns))
        with suppress(DamagedFile, duckdb.Error):
            with open_warehouse(full.home, read_only=True) as connection:
                now = contents(connection)
            if now != before:
                break
    else:
        pytest.fail("DuckDB noticed all of it")
    (first, _) = recover(full.home)
    assert first.startswith("warehouse.duckdb was damaged; it is in ")
    full.warehouse.load()
    with open_warehouse(full.home, read_only=True) as connection:
        assert contents(connection)["raw.run"] == before["raw.run"]
    assert check(full.home).sound


def test_whoever_reads_damage_is_told_the_way_on(full: Maker) -> None:
    main = full.main
    whole = main.read_bytes()
    for damage in (DAMAGES["magic"], DAMAGES["every block"], DAMAGES["zero length"]):
        main.write_bytes(damage(whole))
        for use in (
            lambda: check(full.home),
            lambda: full.warehouse.query("leaderboard"),
            lambda: full.warehouse.load(),
            lambda: full.warehouse.record(fits=[full.fit("p1", system="linear")]),
        ):
            with pytest.raises(
                DamagedFile, match="nothing is lost: `stepcast load` sets it aside"
            ) as error:
                use()
            assert "\n" not in str(error.value)
            assert str(main) in str(error.value)


def test_without_a_journal_the_copy_serves(full: Maker) -> None:
    before = held(full.home)
    shutil.rmtree(full.home / "journal")
    main = full.main
    main.write_bytes(b"")
    with pytest.raises(
        DamagedFile, match=r"has no journal/: `stepcast load` .* what history.duckdb"
    ):
        check(full.home)
    assert recover(full.home)[1:] == ["1 fits and 2 predictions are back from history.duckdb"]
    full.warehouse.load()
    assert held(full.home) == before
    assert check(full.home).sound


def test_an_older_home_gets_a_journal_once(full: Maker) -> None:
    shutil.rmtree(full.home / "journal")
    full.tamper("UPDATE meta.journal SET entry = 0, sha256 = '', size_bytes = 0")
    before = held(full.home)
    full.warehouse.query("leaderboard")
    written = journal.size_bytes(full.home / "journal")
    assert written > 0
    full.warehouse.query("leaderboard")
    assert journal.size_bytes(full.home / "journal") == written
    assert not (full.home / "damaged").exists()
    assert rebuilt(full) == before


def test_a_backup_that_is_put_back_catches_up(full: Maker) -> None:
    older = backup(full.home)
    full.forecast({2: 9.0}, system="linear")
    full.measure("m9", full.scenario(4), [1.0], minute=9)
    full.warehouse.load()
    before = held(full.home)
    shutil.copy(older, full.main)
    assert recover(full.home) == []
    assert full.warehouse.load().loaded == ("m9",)
    assert held(full.home) == before
    assert check(full.home).sound


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_a_journal_that_lost_its_end_is_written_anew(full: Maker, kept: float) -> None:
    before, (file,) = held(full.home), (full.home / "journal").glob("*.jsonl")
    os.truncate(file, int(kept * file.stat().st_size))
    (text,) = full.broken()
    assert "journal" in text
    full.warehouse.query("leaderboard")
    assert rebuilt(full) == before


def spoiled(make: Maker, table: str, spoil: Callable[[bytes], bytes]) -> int:
    """Spoil the first entry about a table, and return its line."""
    (file,) = (make.home / "journal").glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if f'"{table}"'.encode() in line)
    lines[place] = spoil(lines[place])
    file.write_bytes(b"".join(lines))
    return place + 1


def test_a_damaged_entry_is_found_and_mended(full: Maker) -> None:
    line = spoiled(full, "fit.fit", lambda whole: whole.replace(b'"fit.fit"', b'"fit.fiz"'))
    (text,) = full.broken()
    assert f"line {line} of 000001.jsonl names a table that no journal has" in text
    (told,) = recover(full.home)
    assert told.startswith("journal/ was damaged (line ")
    full.warehouse.load()
    assert check(full.home).sound


def test_what_both_lost_is_named(full: Maker) -> None:
    spoiled(full, "pred.ledger", lambda whole: b"[" + whole[:50] + b"\n")
    full.main.write_bytes(b"")
    *_, back, lost = recover(full.home)
    assert back == "1 fits and 1 predictions are back from journal/"
    assert "what it had there is lost: line " in lost
    full.warehouse.load()
    (text,) = full.broken()
    assert "was removed, or its number was changed" in text


def test_a_warehouse_of_another_journal_is_refused(full: Maker, tmp_path: Path) -> None:
    other = type(full)(tmp_path / "other")
    other.home.mkdir()
    other.profile("x1", other.scenario())
    other.warehouse.load()
    shutil.copy(other.home / "warehouse.duckdb", full.home)
    with pytest.raises(BadInput, match=r"each hold what the other lacks; move .* away") as error:
        full.warehouse.query("leaderboard")
    assert "\n" not in str(error.value)


def killed(work: Callable[[], object]) -> bool:
    """Run work in a child process that a patch kills; tell whether it was."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def logged(entry: JournalTransaction, log: Callable[..., None] = JournalTransaction.log) -> None:
    log(entry)
    die()


def half_a_line(self: durable_files.Appender, lines: list[str]) -> None:
    os.write(self._file.fileno(), lines[0].encode()[: len(lines[0]) // 2])
    die()


KILLS: dict[str, tuple[object, str, Callable[..., None]]] = {
    "before the entry": (journal, "append", die),
    "in the entry": (durable_files.Appender, "append", half_a_line),
    "entry not on disk": (durable_files.Appender, "sync", die),
    "before it is noted": (journal, "remember", die),
    "before the commit": (JournalTransaction, "log", logged),
}


@pytest.mark.parametrize("when", KILLS)
def test_killed_between_journal_and_commit(
    full: Maker, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    fit, before = full.fit("p1"), held(full.home)
    forecasts = [full.prediction(fit, full.scenario(workers), 1.0) for workers in (5, 6, 7)]

    def write() -> None:
        monkeypatch.setattr(*KILLS[when])
        full.warehouse.record(forecasts)

    assert killed(write)
    is_logged = when not in ("before the entry", "in the entry")
    full.warehouse.query("leaderboard")
    with open_warehouse(full.home) as connection:
        row = connection.execute("SELECT count(*) FROM pred.ledger").fetchone()
    assert row == (5 if is_logged else 2,)
    if not is_logged:
        assert held(full.home) == before
    assert full.warehouse.record(forecasts) == (0 if is_logged else 3)
    full.warehouse.load()
    assert check(full.home).sound, "the journal has the chain of the warehouse"


@pytest.mark.parametrize(
    ("place", "name"),
    [(journal, "remember"), (upkeep, "set_aside"), (Path, "rename")],
    ids=["before the commit", "before the old one", "before its name"],
)
def test_killed_while_the_journal_is_written_anew(
    full: Maker, monkeypatch: pytest.MonkeyPatch, place: object, name: str
) -> None:
    before, (file,) = held(full.home), (full.home / "journal").glob("*.jsonl")
    os.truncate(file, file.stat().st_size // 2)

    def work() -> None:
        monkeypatch.setattr(place, name, die)
        full.warehouse.query("leaderboard")

    assert killed(work)
    full.warehouse.load()
    assert check(full.home).sound
    assert rebuilt(full) == before
    names = {path.name for path in full.home.iterdir()}
    assert names == {"warehouse.duckdb", "history.duckdb", "landing", "journal", "damaged"}


def test_killed_while_a_run_is_loaded(full: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    full.measure("m9", full.scenario(4), [1.0], minute=9)

    def work() -> None:
        monkeypatch.setattr(journal, "remember", die)
        full.warehouse.load()

    assert killed(work)
    (text,) = full.broken()
    assert "has 1 entries that warehouse.duckdb lacks" in text
    assert full.warehouse.load().loaded == ("m9",)
    assert check(full.home).sound


def test_a_full_disk_leaves_the_journal_as_it_was(full: Maker) -> None:
    folder = full.home / "journal"
    before, size = held(full.home), journal.size_bytes(folder)
    fit = full.fit("p1").model_copy(update={"row_filter": "x" * 3_000_000})
    with (
        limited(2_000_000),
        pytest.raises(StepcastError, match=r"journal could not.*free disk space"),
    ):
        full.warehouse.record(fits=[fit])
    assert journal.size_bytes(folder) == size
    assert held(full.home) == before


def test_segments_are_bounded(full: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warehouse.limits.JOURNAL_SEGMENT", 1_000)
    fit = full.fit("p1")
    for workers in range(5, 10):
        full.warehouse.record([full.prediction(fit, full.scenario(workers), 1.0)])
    before = held(full.home)
    assert len(journal.segments(full.home / "journal")) > 3
    assert rebuilt(full) == before


def test_a_copied_home_is_sound(full: Maker, tmp_path: Path) -> None:
    """`cp -r` gives files another time; what counts is their SHA-256."""
    other = type(full)(tmp_path / "other")
    shutil.copytree(full.home, other.home, copy_function=shutil.copyfile)
    assert all(text.startswith("history.duckdb is older") for text in other.broken())
    report = other.warehouse.load()
    assert report.loaded == ()
    assert held(other.home)["head"] == held(full.home)["head"]
    assert check(other.home).sound
    file = other.home / "landing" / "m1" / "sample.parquet"
    pl.read_parquet(file).write_parquet(file, compression="snappy")
    (text,) = other.broken()
    assert text.startswith("run m1")


@pytest.mark.parametrize(
    "line",
    [
        '[1e999, "", []]',
        '[1.5, "", []]',
        '["1", "", []]',
        '[1, "", [["fit.fit", []]]]',
        '[1, "", [["fit.fit", {"fit_id": "a"}]]]',
        '[1, "", [["fit.fit", {"fit_id": ["a"], "system": []}]]]',
        '[1, "", [[["fit.fit"], 7]]]',
        "[" * 100_000,
    ],
)
def test_what_is_no_entry_is_told_by_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "000001.jsonl").write_text(f"{line}\n")
    assert list(journal.read(tmp_path)) == ["line 1 of 000001.jsonl is no entry"]
