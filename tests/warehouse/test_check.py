import os
import shutil
from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.warehouse.conftest import Maker, at
from warehouse import chain, journal
from warehouse.check import check
from warehouse.connection import SCHEMA
from warehouse.landed_files import seal
from warehouse.landing import compact
from warehouse.loader import signature_of
from warehouse.publication import migrate


def test_a_sound_warehouse_has_no_findings(filled: Maker) -> None:
    before = (filled.home / "warehouse.duckdb").read_bytes()
    report = check(filled.home)
    assert report.findings == ()
    assert report.sound
    assert report.summary.startswith("2 runs, 1 fits, 1 predictions, schema version ")
    assert (filled.home / "warehouse.duckdb").read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM raw.timing WHERE operation = 1", "run p1: 2 rows of timing landed, 1 are"),
        ("UPDATE raw.sample SET value = value * 2", "run m1: rows of sample were changed"),
        ("UPDATE raw.scenario SET canonical = '{}'", "run p1: rows of scenario were changed"),
        ("UPDATE raw.operation_time SET mean_us = 2 * mean_us", "run p1: rows of operation_time"),
        ("UPDATE meta.loaded SET landed_sha256 = 'x'", "row 1 of the ledger (meta.loaded p1) was"),
        ("DELETE FROM raw.timing", "run p1: 2 rows of timing landed, 0 are here"),
        ("INSERT INTO raw.run FROM raw.run WHERE run_id = 'p1'", "run p1 is there 2 times in raw"),
        ("INSERT INTO raw.edge VALUES ('p9', 0, 1)", "1 orphan rows in raw.edge of run p9"),
        ("DELETE FROM raw.run WHERE run_id = 'm1'", "run m1 counts as loaded, but raw.run lacks"),
        ("DELETE FROM raw.run WHERE run_id = 'p1'", "run p1 is gone, which fit"),
        ("DELETE FROM fit.fit", "is gone, which 1 predictions rest on"),
        ("UPDATE pred.ledger SET value = 2.1", "was changed, put in or moved"),
        ("DELETE FROM pred.ledger", "was removed"),
    ],
)
def test_damage_is_found(filled: Maker, damage: str, said: str) -> None:
    filled.tamper(damage)
    assert not check(filled.home).sound
    assert any(said in text for text in filled.broken())


def test_another_time_of_the_same_bytes_is_no_change(filled: Maker) -> None:
    os.utime(filled.home / "landing" / "p1" / "timing.parquet", ns=(0, 0))
    assert check(filled.home).findings == ()
    assert filled.warehouse.load().loaded == ()


def test_rot_that_no_time_or_size_shows_is_found(filled: Maker) -> None:
    file = filled.home / "landing" / "p1" / "timing.parquet"
    state, content = file.stat(), bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    (text,) = filled.broken()
    assert "run p1 is damaged" in text and "timing.parquet is not the file that landed" in text


def test_what_is_odd_but_not_broken_is_noted(filled: Maker) -> None:
    landing = filled.home / "landing"
    (landing / "m1").rename(filled.home / "m1-on-another-disk")
    filled.profile("p2", filled.scenario(1), repeat=2)
    (filled.profile("p3", filled.scenario(1), repeat=3) / "run.parquet").unlink()
    filled.warehouse.load()
    filled.profile("p4", filled.scenario(1), repeat=4)
    report = check(filled.home)
    assert report.sound
    gone, waiting, aside = (finding.text for finding in report.findings)
    assert "1 loaded runs are not in" in gone and "their rows are unchecked" in gone
    assert waiting == "1 landed runs are not loaded yet (first: p4); `stepcast load`"
    assert "run p3 is set aside in" in aside and "quarantine: run.parquet is missing" in aside


def test_a_history_that_was_not_published_is_found(filled: Maker) -> None:
    (filled.home / "history.duckdb").unlink()
    (text,) = filled.broken()
    assert "history.duckdb is older than warehouse.duckdb; `stepcast load`" in text
    filled.warehouse.load()
    assert check(filled.home).findings == ()


def test_a_run_that_landed_again_in_the_place_of_another_is_found(filled: Maker) -> None:
    """Files with checksums of their own, of the same size and time, are still not those loaded."""
    folder = filled.home / "landing" / "m1"
    states = {file.name: file.stat() for file in folder.iterdir()}
    table = pq.read_table(folder / "sample.parquet")
    place = table.column_names.index("value")
    forged = pc.multiply(table["value"], 2.0)
    field = table.schema.field(place)
    file = folder / "sample.parquet"
    pq.write_table(table.set_column(place, field, forged), file, **compact(table.schema))
    assert file.stat().st_size == states[file.name].st_size
    seal(folder)
    for name, state in states.items():
        os.utime(folder / name, ns=(state.st_atime_ns, state.st_mtime_ns))
    filled.tamper("UPDATE raw.sample SET value = value * 2")
    lines = filled.broken()
    assert any("run m1: its files are not those that were loaded" in text for text in lines)


def test_a_run_that_changed_is_pinned_anew(filled: Maker) -> None:
    folder = filled.home / "landing" / "m1"
    table = pq.read_table(folder / "sample.parquet")
    pq.write_table(table.slice(1), folder / "sample.parquet")
    seal(folder)
    assert filled.warehouse.load().loaded == ("m1",)
    assert check(filled.home).findings == ()
    assert filled.rows("SELECT run_id FROM meta.reloaded").rows() == [("m1",)]
    (folder / "run.parquet").touch()
    assert filled.warehouse.load().loaded == ()
    assert filled.rows("FROM meta.reloaded").height == 1
    filled.tamper("DELETE FROM meta.reloaded")
    assert any("was removed" in text for text in filled.broken())


def test_a_home_from_before_is_checked_and_said_to_be_unpinned(make: Maker, tmp_path: Path) -> None:
    older = tmp_path / "schema"
    shutil.copytree(SCHEMA, older, ignore=shutil.ignore_patterns("0019_*"))
    main = make.home / "warehouse.duckdb"
    main.unlink()
    folder = make.measure("m1", make.scenario(2), [2.0], minute=5)
    with duckdb.connect(str(main)) as connection:
        migrate(connection, older, views=tmp_path / "none")
        columns = {"run_id": "m1", "signature": signature_of(folder), "loaded_at": at(9)}
        with journal.entry(connection) as entry:
            chain.append(entry, "meta.loaded", [columns])
        for file in folder.glob("*.parquet"):
            connection.register("landed", pq.read_table(file))
            connection.execute(f"INSERT INTO raw.{file.stem} BY NAME FROM landed")
    assert make.warehouse.load().unchanged == 1
    (finding,) = check(make.home).findings
    assert not finding.broken
    assert finding.text.startswith("1 runs are unpinned (first: m1): loaded before the chain")
    (folder / "run.parquet").touch()
    assert make.warehouse.load().loaded == ("m1",)
    assert check(make.home).findings == ()


def test_a_damaged_history_is_a_finding_whatever_its_size_and_time(make: Maker) -> None:
    make.profile("p1", make.scenario())
    make.warehouse.load()
    assert check(make.home).findings == ()
    history = make.home / "history.duckdb"
    state = history.stat()
    with history.open("r+b") as file:
        file.seek(state.st_size // 2)
        byte = file.read(1)[0]
        file.seek(state.st_size // 2)
        file.write(bytes([byte ^ 1]))
    os.utime(history, ns=(state.st_atime_ns, state.st_mtime_ns))
    (text,) = make.broken()
    assert text.startswith("history.duckdb is damaged: its bytes are not those of")
    make.warehouse.load(verify=True)
    assert check(make.home).findings == ()
