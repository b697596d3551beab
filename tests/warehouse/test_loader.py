import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.warehouse.conftest import Maker, rewrite
from warehouse import loader
from warehouse.connection import connect
from warehouse.landed_files import seal
from warehouse.landing import checked_files
from warehouse.sql import read_only
from warehouse.tables import CHUNK_ROWS, SCHEMAS

EDGES = pl.DataFrame({"source": [0, 1], "target": [1, 2]})


def content(home: Path) -> dict[str, pl.DataFrame]:
    with connect(home / "history.duckdb", read_only=True) as connection:
        return {
            name: connection.execute(f'SELECT * FROM raw."{name}" ORDER BY ALL').pl()
            for name in SCHEMAS
        }


def test_loading_twice_changes_nothing(make: Maker) -> None:
    scenario = make.scenario()
    make.profile("r1", scenario)
    make.measure("r2", scenario, [2.0, 2.2], minute=5)
    assert make.warehouse.load().loaded == ("r1", "r2")
    before, published = content(make.home), (make.home / "history.duckdb").stat()
    again = make.warehouse.load()
    assert (again.loaded, again.unchanged, again.quarantined) == ((), 2, ())
    assert (make.home / "history.duckdb").stat().st_ino == published.st_ino
    for name, frame in content(make.home).items():
        assert frame.equals(before[name], null_equal=True)


def test_a_changed_run_replaces_its_rows(make: Maker) -> None:
    folder = make.land(make.run("r1", None, "profile"), None, {"edge": EDGES})
    make.land(make.run("r2", None, "profile"), None, {"edge": EDGES})
    make.warehouse.load()
    table = pa.table({"run_id": ["r1"], "source": [7], "target": [8]}).cast(SCHEMAS["edge"])
    pq.write_table(table, folder / "edge.parquet")
    seal(folder)
    report = make.warehouse.load()
    assert (report.loaded, report.unchanged) == (("r1",), 1)
    assert content(make.home)["edge"].rows() == [("r1", 7, 8), ("r2", 0, 1), ("r2", 1, 2)]


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(
        st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20
    )
)
def test_what_lands_is_what_loads(make: Maker, values: list[float | None]) -> None:
    run_id = f"r{len(list((make.home / 'landing').glob('*')))}"
    sample = pl.DataFrame({"value": values}, schema={"value": pl.Float64}).with_columns(
        metric=pl.lit("m"), unit=pl.lit("s"), window=pl.int_range(pl.len())
    )
    make.land(make.run(run_id, None, "profile"), None, {"sample": sample})
    make.warehouse.load()
    loaded = make.warehouse.visible("sample", [run_id])
    assert loaded["value"].to_list() == values
    assert loaded["window"].to_list() == list(range(len(values)))


def spoil_late_page(folder: Path) -> None:
    """Damage the last of several row groups: those before it have gone into the database."""
    rows = pa.array(range(3 * CHUNK_ROWS), pa.int32())
    owner = pa.repeat(pa.scalar("bad"), len(rows))
    table = pa.table({"run_id": owner, "source": rows, "target": rows}).cast(SCHEMAS["edge"])
    file = folder / "edge.parquet"
    pq.write_table(table, file, row_group_size=CHUNK_ROWS)
    with pq.ParquetFile(file) as parquet:
        start = parquet.metadata.row_group(2).column(0).dictionary_page_offset
    whole = bytearray(file.read_bytes())
    whole[start : start + 20] = bytes(20)
    file.write_bytes(whole)


def spoil_range(folder: Path) -> None:
    rows = pa.array([1, 2**40])
    table = pa.table({"run_id": ["bad", "bad"], "source": rows, "target": rows})
    pq.write_table(table, folder / "edge.parquet")


def spoil_text(folder: Path) -> None:
    table = pq.read_table(folder / "run.parquet")
    place = table.column_names.index("study")
    text = pa.array([b"\xff"]).view(pa.string())
    pq.write_table(table.set_column(place, table.schema.field(place), text), folder / "run.parquet")


def write_layers(folder: Path, names: pa.Array | pa.ChunkedArray, **options: Any) -> None:
    rows = pa.repeat(pa.scalar(0, pa.int32()), len(names))
    owner = pa.repeat(pa.scalar("bad"), len(rows))
    columns = {"run_id": owner, "layer": rows, "name": names, "type": owner}
    columns |= {"parameter_count": rows, "gradient_bytes": rows}
    pq.write_table(pa.table(columns), folder / "layer.parquet", **options)


def spoil_long_word(folder: Path) -> None:
    """300 GB in a file of 60 kB: a word of 100 kB, three million times."""
    word = pa.DictionaryArray.from_arrays(
        pa.array([0], pa.int32()).take(pa.repeat(pa.scalar(0), 3_000_000)), ["x" * 100_000]
    )
    write_layers(folder, word)
    assert (folder / "layer.parquet").stat().st_size < 100_000


def spoil_row_group(folder: Path) -> None:
    words = pa.chunked_array([pa.array(["x" * 1_000_000] * 50)] * 22)
    write_layers(folder, words, use_dictionary=False, compression="zstd")
    assert (folder / "layer.parquet").stat().st_size < 1_000_000


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda run: os.truncate(run / "edge.parquet", 500), "edge.parquet is not readable Parq"),
        (lambda run: (run / "run.parquet").unlink(), "run.parquet is missing"),
        (lambda run: rewrite(run, "edge", run_id="good"), "holds rows of other runs: ['good']"),
        (lambda run: rewrite(run, "run", purpose="party"), "1 validation error for Run purpose"),
        (lambda run: rewrite(run, "run", config="[" * 99_999), "config is nested too deep"),
        (lambda run: rewrite(run, "sample", metric="m", unit="s", value=float("nan")), "isfinite"),
        (lambda run: rewrite(run, "scenario", scenario_id="0" * 16, canonical="{}"), "not the ha"),
        (lambda run: shutil.copy(run / "run.parquet", run / "rnu.parquet"), "rnu.parquet is no k"),
        (spoil_long_word, "layer.parquet: texts of more than 256 MiB in 122,880 rows"),
        (spoil_row_group, "layer.parquet: a row group of 1,049 MiB, more than 1,024; write"),
        (spoil_text, "run.parquet: a text is no UTF-8"),
        (spoil_late_page, "edge.parquet is not readable Parquet"),
        (spoil_range, "edge.parquet: Integer value 1099511627776 not in range"),
    ],
)
def test_a_bad_run_is_set_aside_and_the_others_load(
    make: Maker, spoil: Callable[[Path], object], reason: str
) -> None:
    folder = make.land(make.run("bad", None, "profile"), None, {"edge": EDGES})
    spoil(folder)
    seal(folder)
    make.land(make.run("good", None, "profile"), None, {"edge": EDGES})
    report = make.warehouse.load()
    assert report.loaded == ("good",)
    (aside,) = report.quarantined
    assert aside.run_id == "bad"
    assert reason in aside.reason
    assert aside.folder == make.home / "landing" / "quarantine" / "bad"
    assert (aside.folder / "reason.txt").read_text() == aside.reason + "\n"
    assert "\n" not in aside.reason
    assert content(make.home)["edge"].rows() == [("good", 0, 1), ("good", 1, 2)]
    assert make.warehouse.load().quarantined == ()


def test_a_run_that_needs_too_much_memory_stays_and_is_tried_again(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = pl.select(step=pl.int_range(1_500_000, dtype=pl.Int32)).with_columns(
        operation=pl.lit(0), start_us=pl.lit(0), duration_us=pl.col("step")
    )
    make.land(make.run("big", None, "profile"), None, {"timing": many})
    make.land(make.run("good", None, "profile"), None, {"edge": EDGES})
    with monkeypatch.context() as small:
        small.setattr(loader, "MEMORY", "20MB")
        report = make.warehouse.load()
    assert report.loaded == ("good",)
    (aside,) = report.quarantined
    assert aside.reason.startswith("Out of Memory Error: ")
    assert "\n" not in aside.reason
    assert aside.folder == make.home / "landing" / "big"
    assert make.warehouse.load().loaded == ("big",)
    assert read_only(make.home, "FROM raw.timing").height == 1_500_000


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EIO, "the machine cannot read it: [Errno 5] Input/output error: "),
        (errno.EACCES, "the machine cannot read it: [Errno 13] Permission denied: "),
        (None, "it needs more memory than this machine has"),
    ],
)
def test_a_run_that_the_machine_cannot_read_stays_and_the_others_load(
    make: Maker, monkeypatch: pytest.MonkeyPatch, number: int | None, reason: str
) -> None:
    folder = make.land(make.run("bad", None, "profile"), None)
    make.land(make.run("good", None, "profile"), None, {"edge": EDGES})
    whole = checked_files

    def failing(path: Path) -> object:
        if path != folder:
            return whole(path)
        if number is None:
            raise pa.ArrowMemoryError("malloc of size 64 failed")
        raise OSError(number, os.strerror(number), str(path / "run.parquet"))

    with monkeypatch.context() as ill:
        ill.setattr(loader, "checked_files", failing)
        report = make.warehouse.load()
    assert report.loaded == ("good",)
    (aside,) = report.quarantined
    assert (aside.run_id, aside.folder) == ("bad", folder)
    assert aside.reason.startswith(reason)
    (line,) = report.not_loaded
    assert line.startswith(f"bad was not loaded and stays in {folder.parent}, where the next")
    assert make.warehouse.load().loaded == ("bad",)


def test_a_quarantine_that_cannot_be_made_blocks_no_run(make: Maker) -> None:
    (make.land(make.run("bad", None, "profile"), None) / "run.parquet").unlink()
    make.land(make.run("good", None, "profile"), None)
    (make.home / "landing" / "quarantine").write_text("")
    report = make.warehouse.load()
    assert report.loaded == ("good",)
    (aside,) = report.quarantined
    assert aside.folder == make.home / "landing" / "bad"
    assert "run.parquet is missing; not moved: [Errno " in aside.reason


def test_quarantine_keeps_every_edition_of_a_run(make: Maker) -> None:
    for _ in range(2):
        (make.land(make.run("bad", None, "profile"), None) / "run.parquet").unlink()
        make.warehouse.load()
    names = sorted(path.name for path in (make.home / "landing" / "quarantine").iterdir())
    assert names == ["bad", "bad.2"]
    make.land(make.run("bad", None, "profile"), None)
    assert make.warehouse.load().loaded == ("bad",), "one that landed again stays beside them"


def test_a_run_being_written_is_not_loaded_nor_removed(make: Maker, dead_pid: int) -> None:
    whole = make.land(make.run("r1", None, "profile"), None)
    dead = whole.rename(whole.with_name(f".tmp-{dead_pid}-x"))
    alive = make.land(make.run("r1", None, "profile"), None)
    alive = alive.rename(alive.with_name(".tmp-1-x"))
    assert make.warehouse.load().loaded == ()
    assert alive.exists()
    assert not dead.exists()


def timing(steps: list[int], operations: list[int], durations: list[int]) -> pl.DataFrame:
    columns = {"step": steps, "operation": operations, "duration_us": durations}
    return pl.DataFrame(columns).with_columns(start_us=0)


def test_timings_bring_their_statistics_unless_these_landed(make: Maker) -> None:
    """Operation 0 takes 10, 20 and 30 + 60 µs (it runs twice in the last step), 1 runs once."""
    rows = timing([0, 1, 2, 2, 1], [0, 0, 0, 0, 1], [10, 20, 30, 60, 7])
    make.land(make.run("r1", None, "profile"), None, {"timing": rows})
    names = ("mean_us", "median_us", "sd_us", "min_us", "p95_us")
    landed = pl.DataFrame({"operation": [0], "steps": [9]} | {name: [1.5] for name in names})
    tables = {"timing": timing([0], [0], [2]), "operation_time": landed}
    make.land(make.run("r2", None, "profile"), None, tables)
    make.warehouse.load()
    assert content(make.home)["operation_time"].rows() == [
        ("r1", 0, 3, 40.0, 20.0, pytest.approx(1900**0.5), 10.0, pytest.approx(83.0)),
        ("r1", 1, 1, 7.0, 7.0, 0.0, 7.0, 7.0),
        ("r2", 0, 9, *[1.5] * 5),
    ]


@pytest.mark.parametrize(
    "name", ["a*b", "a[b]c", "a'b", "ü $1 {x}", "study=x/operation=7/error=none"]
)
def test_the_folder_may_have_any_name(tmp_path: Path, make: Maker, name: str) -> None:
    """DuckDB takes * and [ in a path for a pattern, a=b for column a with the value b."""
    odd = type(make)(tmp_path / name)
    rows = timing([0, 1], [0, 0], [10, 20])
    odd.land(odd.run("r1", None, "profile"), None, {"timing": rows})
    assert odd.warehouse.load().loaded == ("r1",)
    tables = content(odd.home)
    assert tables["run"].select("study", "error").rows() == [("demo", None)]
    assert tables["timing"]["operation"].to_list() == [0, 0]
    assert tables["operation_time"].select("operation", "steps", "mean_us").rows() == [(0, 2, 15.0)]


def test_columns_the_table_lacks_are_left_out(make: Maker) -> None:
    folder = make.land(make.run("r1", None, "profile"), None, {"edge": EDGES})
    table = pq.read_table(folder / "edge.parquet")
    pq.write_table(table.append_column("note", pa.array(["a", "b"])), folder / "edge.parquet")
    seal(folder)
    assert make.warehouse.load().loaded == ("r1",)
    assert content(make.home)["edge"].rows() == [("r1", 0, 1), ("r1", 1, 2)]


@pytest.mark.parametrize(
    ("column", "loaded"),
    [
        (pa.array([1, 2], pa.int64()), [1, 2]),
        (pa.array([1.0, 2.0]), [1, 2]),
        (pa.array([1, 2], pa.uint8()), [1, 2]),
        (pa.array([1.0, 2.5]), None),
        (pa.array([1, None]), None),
    ],
)
def test_types_that_hold_the_same_values_load(
    make: Maker, column: pa.Array, loaded: list[int] | None
) -> None:
    folder = make.land(make.run("r1", None, "profile"), None, {"edge": EDGES})
    table = pq.read_table(folder / "edge.parquet").set_column(2, "target", column)
    pq.write_table(table, folder / "edge.parquet")
    seal(folder)
    report = make.warehouse.load()
    assert len(report.quarantined) == (loaded is None)
    assert content(make.home)["edge"]["target"].to_list() == (loaded or [])
