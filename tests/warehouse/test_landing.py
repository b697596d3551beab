import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse.conftest import Maker, rewrite
from warehouse import landing
from warehouse.landed_files import seal
from warehouse.landing import land, landed_runs, read_tables
from warehouse.records import BadInput, StepcastError, content_hash
from warehouse.tables import CHUNK_ROWS, SCHEMAS

EDGES = pl.DataFrame({"source": [0, 1], "target": [1, 2]})


def test_a_landed_run_has_run_id_first_and_narrow_types(make: Maker) -> None:
    scenario = make.scenario()
    folder = make.land(make.run("r1", scenario, "profile"), scenario, {"edge": EDGES})
    table = pq.read_table(folder / "edge.parquet")
    assert table.schema.equals(SCHEMAS["edge"])
    assert table.to_pylist()[0] == {"run_id": "r1", "source": 0, "target": 1}
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS",
        "edge.parquet",
        "run.parquet",
        "scenario.parquet",
    ]


def test_a_run_is_read_once_and_again_when_its_file_is_another(make: Maker) -> None:
    folder = make.land(make.run("r1", None, "profile"), None)
    (run,) = landed_runs(make.home / "landing")
    (same,) = landed_runs(make.home / "landing")
    assert same is run
    other = make.run("r1", None, "profile", repeat=2)
    shutil.rmtree(folder)
    make.land(other, None)
    assert landed_runs(make.home / "landing") == [other]
    (folder / "run.parquet").write_bytes(b"PAR1 no")
    assert landed_runs(make.home / "landing") == []
    shutil.rmtree(folder)
    make.land(other, None)
    (folder / "link").symlink_to("/etc/passwd")
    assert landed_runs(make.home / "landing") == []


def test_a_run_lands_once(make: Maker) -> None:
    run = make.run("r1", None, "profile")
    make.land(run, None)
    with pytest.raises(BadInput, match="r1 has landed before"):
        make.land(run, None)
    assert landed_runs(make.home / "landing") == [run]


def test_a_run_that_lands_meanwhile_is_not_overwritten(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (make.run("r1", None, "profile", repeat=repeat) for repeat in (1, 2))
    write = landing._write  # noqa: SLF001

    def slow_write(folder: Path, *rest: Any) -> None:
        write(folder, *rest)
        monkeypatch.setattr(landing, "_write", write)
        make.land(first, None)

    monkeypatch.setattr(landing, "_write", slow_write)
    with pytest.raises(BadInput, match="r1 has landed before"):
        make.land(second, None)
    assert landed_runs(make.home / "landing") == [first]


def test_a_failed_landing_leaves_nothing(make: Maker, tmp_path: Path) -> None:
    run = make.run("r1", None, "profile")
    with pytest.raises(StepcastError, match=r"run r1 did not land in .*absent.pb"):
        land(make.home / "landing", run, None, {}, {"trace.pb": tmp_path / "absent.pb"})
    assert list((make.home / "landing").iterdir()) == []


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"edge": EDGES.drop("target")}, "missing columns target; found run_id, source"),
        ({"edge": EDGES.with_columns(weight=1)}, "no such columns: weight"),
        ({"edge": EDGES.with_columns(target=pl.lit(None))}, "target"),
        ({"edge": EDGES.with_columns(target=pl.lit(2**40))}, "not in range"),
        ({"egde": EDGES}, "no table 'egde'"),
    ],
)
def test_frames_that_do_not_fit_are_refused(
    make: Maker, tables: dict[str, pl.DataFrame], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        make.land(make.run("r1", None, "profile"), None, tables)
    assert list((make.home / "landing").glob("*")) == []


LINK = {"direction": "downlink", "flows": 1, "flow": 0, "trial": 0, "bytes": 8}
LINK |= {"bandwidth_Bps": 4.0}
PRICE = {"provider": "own", "node_type": "a", "region": "b", "market": "spot", "source": "x"}


@pytest.mark.parametrize(
    ("table", "row", "message"),
    [
        ("link", LINK | {"seconds": -1.0}, "row 2: seconds is -1.0, expected at least 0"),
        ("price", PRICE | {"usd_per_hour": 0.0}, r"row 2 \(a\): usd_per_hour is 0.0, expected US"),
        ("price", PRICE | {"usd_per_hour": float("nan")}, r"row 2 \(a\): usd_per_hour is nan"),
    ],
)
def test_rows_that_no_question_could_use_do_not_land(
    make: Maker, table: str, row: dict[str, object], message: str
) -> None:
    (odd,) = set(row) & {"seconds", "usd_per_hour"}
    rows = pl.DataFrame([row | {odd: 2.0}, row])
    if table == "price":
        rows = rows.with_columns(observed_at=make.run("r1", None, "profile").started_at)
    with pytest.raises(BadInput, match=message):
        make.land(make.run("r1", None, "profile"), None, {table: rows})
    assert list((make.home / "landing").glob("*")) == []


@pytest.mark.parametrize("canonical", ["{}", "7", "[" * 99_999])
def test_a_scenario_that_is_none_does_not_load(make: Maker, canonical: str) -> None:
    """Its hash may be right; every forecast would read it."""
    scenario = make.scenario()
    folder = make.profile("r1", scenario)
    key = content_hash(canonical)
    rewrite(folder, "scenario", scenario_id=key, canonical=canonical)
    rewrite(folder, "run", scenario_id=key)
    seal(folder)
    (aside,) = make.warehouse.load().quarantined
    assert aside.reason.startswith("scenario.parquet: no scenario: ")


@pytest.mark.parametrize("run_id", ["../r1", "a/b", ".tmp-1-x", "quarantine", ""])
def test_run_ids_that_cannot_name_a_folder_are_refused(make: Maker, run_id: str) -> None:
    with pytest.raises(BadInput, match="cannot name a folder"):
        make.land(make.run(run_id, None, "profile"), None)


def test_artefact_names_stay_inside_the_run(make: Maker, tmp_path: Path) -> None:
    run = make.run("r1", None, "profile")
    with pytest.raises(BadInput, match="not a plain file name"):
        land(make.home / "landing", run, None, {}, {"../trace.pb": tmp_path})


def test_a_stream_lands_in_row_groups_of_one_size(make: Maker) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 3 * CHUNK_ROWS, CHUNK_ROWS // 4):
            rows = pa.array(range(start, start + CHUNK_ROWS // 4), pa.int32())
            yield pa.record_batch({"source": rows, "target": rows})

    schema = pa.schema([("source", pa.int32()), ("target", pa.int32())])
    stream = pa.RecordBatchReader.from_batches(schema, batches())
    folder = land(make.home / "landing", make.run("r1", None, "profile"), None, {"edge": stream})
    with pq.ParquetFile(folder / "edge.parquet") as file:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert groups == [CHUNK_ROWS] * 3
        assert file.read()["target"].to_pylist() == list(range(3 * CHUNK_ROWS))


def test_a_stream_that_ends_in_an_error_lands_nothing(make: Maker) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"source": [1], "target": [2]})
        raise BadInput("2.pb: not a whole TensorFlow RunMetadata")

    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    stream = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(BadInput, match=r"^2\.pb: not a whole"):
        land(make.home / "landing", make.run("r1", None, "profile"), None, {"edge": stream})
    assert list((make.home / "landing").iterdir()) == []


def test_a_table_without_rows_lands(make: Maker) -> None:
    folder = make.land(make.run("r1", None, "profile"), None, {"edge": EDGES.clear()})
    assert pq.read_table(folder / "edge.parquet").schema.equals(SCHEMAS["edge"])
    assert {name: len(rows) for name, rows in read_tables(folder).items()} == {"edge": 0, "run": 1}
