"""Landing folders, packed into one input: seeds, mutations of their Parquet, and loading them."""

import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.mutation import Mutator
from warehouse import loader
from warehouse.landed_files import SUMS
from warehouse.landing import land, run_folders
from warehouse.publication import migrate
from warehouse.records import BadInput, NodeGroup, Run, Scenario, Strategy, TrainingWorkload
from warehouse.transfer import copy_runs

_RUN = "run.parquet"
_SPARE: Mapping[str, bytes] = {"edge.parquet": b"PAR1", "x.parquet": b"", "sample.parquet": b"PAR1"}


def land_run(folder: Path, *, purpose: str, run_id: str = "r1") -> None:
    """Land a small profile or measurement."""
    nodes = (
        NodeGroup(role="worker", node_type="emu.avx2.1c", count=1),
        NodeGroup(role="server", node_type="emu.server", count=1),
    )
    scenario = Scenario(
        workload=TrainingWorkload(dnn="cnn", image_size=64, batch_size=8),
        strategy=Strategy(workers=1),
        nodes=nodes,
        link_mbps=150,
    )
    begin = datetime(2030, 1, 1, tzinfo=UTC)
    run = Run(
        run_id=run_id,
        probe="tf_trace",
        purpose="profile" if purpose == "profile" else "measurement",
        study="demo",
        repeat=1,
        scenario_id=scenario.scenario_id,
        backend="emulated",
        status="ok",
        started_at=begin,
        ended_at=begin + timedelta(seconds=30),
        host_id="host-1",
        host={"cpu": "x"},
        software={"tensorflow": "2.21.0"},
        config={"windows": 2, "traced": True, "gauge_us": 200.0},
    )
    timing = {"step": [0, 0], "operation": [0, 1], "start_us": [0, 40], "duration_us": [40, 9]}
    sample = {"metric": ["idle"], "unit": ["1"], "window": [1], "value": [0.5]}
    profiled: Mapping[str, pl.DataFrame] = {"timing": pl.DataFrame(timing)}
    measured: Mapping[str, pl.DataFrame] = {"sample": pl.DataFrame(sample)}
    land(folder, run, scenario, profiled if purpose == "profile" else measured)


@cache
def seeds() -> tuple[bytes, ...]:
    """Return a profile and a measurement, packed; unpacked they are a landing folder."""
    contents = []
    for purpose in ("profile", "measurement"):
        with tempfile.TemporaryDirectory() as folder:
            land_run(Path(folder), purpose=purpose)
            files = sorted(Path(folder).rglob("*"))
            contents.append(packed({f.name: f.read_bytes() for f in files if f.is_file()}))
    return tuple(contents)


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return files as one input."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return whole.getvalue()


def unpacked(content: bytes) -> dict[str, bytes]:
    """Return the files of an input, by their paths."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mutated(random: Random) -> bytes:
    """Return a landing folder whose files were changed."""
    files = changed(unpacked(random.choice(seeds())), random)
    if random.random() < 0.8:
        # Sums that do not fit hide what comes after they were compared.
        files.pop(SUMS, None)
    return packed(files)


def changed(files: dict[str, bytes], random: Random) -> dict[str, bytes]:
    """Return files of which one or two were changed, lost, or replaced by another."""
    for name in random.sample(sorted(files), random.choice((1, 1, 2))):
        folder, _, file = name.rpartition("/")
        if random.random() < 0.1:
            del files[name]
            other, content = random.choice(list(_SPARE.items()))
            files[f"{folder}/{other}" if folder else other] = content
        elif file == SUMS or random.random() < 0.3:
            files[name] = Mutator([files[name]], values=(), packed=False)(random)
        else:
            with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
                files[name] = _rewritten(files[name], random)
    return files


def _rewritten(parquet: bytes, random: Random) -> bytes:
    table = pq.read_table(io.BytesIO(parquet))
    for _ in range(random.choice((1, 1, 2))):
        table = random.choice(_OF_TABLE)(table, random)
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        compression=random.choice(("none", "zstd", "snappy", "gzip")),
        use_dictionary=random.random() < 0.7,
        data_page_version=random.choice(("1.0", "2.0")),
    )
    return out.getvalue()


def _pick(table: pa.Table, random: Random) -> int:
    return random.randrange(max(table.num_columns, 1))


def _values(table: pa.Table, random: Random) -> pa.Table:
    """Replace a value of a column, most often text, by one of its kind."""
    i = _pick(table, random)
    column, kind = table.column(i), table.schema.field(i).type
    new = {
        pa.string(): ("", "x" * 100_000, "\x00", "../x", "[" * 3000, "{}", "null", "1", "[]", "r2"),
        pa.timestamp("us", tz="UTC"): (-(2**63), 2**63 - 1, 0),
        pa.float64(): (float("nan"), float("inf"), 0.0, 1e308),
    }.get(kind, (0, -1, 2**15 - 1, 2**31 - 1))
    value = random.choice((None, *new))
    if kind == pa.string() and random.random() < 0.6:
        old = [word for word in column.to_pylist() if word]
        if old:
            text = Mutator([old[0].encode()], packed=False, grown=0)(random)
            value = text.decode(errors="ignore")
    array = pa.array([value, *column.to_pylist()[1:]], kind)
    return table.set_column(i, table.schema.field(i).name, array)


def _retyped(table: pa.Table, random: Random) -> pa.Table:
    """Give a column another type."""
    i = _pick(table, random)
    name = table.schema.field(i).name
    made: Callable[[], pa.Array] = random.choice(
        (
            lambda: table.column(i).cast(pa.string()),
            lambda: pa.array([[1]] * table.num_rows),
            lambda: pa.array([{"a": 1}] * table.num_rows),
            lambda: pa.array([b"\xff\xfe"] * table.num_rows, pa.binary()),
            lambda: pa.array([2**40] * table.num_rows),
            lambda: pa.array([1.5] * table.num_rows),
            lambda: pa.nulls(table.num_rows),
            lambda: table.column(i).combine_chunks().dictionary_encode(),
            lambda: pa.array(["x" * 20_000] * table.num_rows).dictionary_encode(),
            lambda: pa.array([True] * table.num_rows),
            lambda: pa.array([2**62] * table.num_rows, pa.timestamp("s")),
            lambda: pa.array([1] * table.num_rows, pa.decimal128(38, 0)),
        )
    )
    return table.set_column(i, name, made())


def _renamed(table: pa.Table, random: Random) -> pa.Table:
    """Rename, repeat, delete or add a column."""
    i = _pick(table, random)
    field = table.schema.field(i)
    match random.randrange(4):
        case 0:
            names = list(table.column_names)
            names[i] = random.choice(("x", "", field.name.upper(), "a\nb", '"', "run_id", "*"))
            return table.rename_columns(names)
        case 1:
            return table.append_column(field, table.column(i))
        case 2:
            return table.remove_column(i)
        case _:
            return table.append_column("more", pa.array(["x"] * table.num_rows))


def _resized(table: pa.Table, random: Random) -> pa.Table:
    """Take no row, or the same ones many times."""
    copies = random.choice((0, 2, 1000))
    return pa.concat_tables([table] * copies) if copies else table.slice(0, 0)


def _described(table: pa.Table, random: Random) -> pa.Table:
    """Change the metadata of the schema."""
    value = random.choice((b"", b"{}", b"\xff", json.dumps({"a": [1] * 100}).encode()))
    return table.replace_schema_metadata({random.choice((b"pandas", b"ARROW:schema")): value})


_OF_TABLE = (_values, _values, _values, _retyped, _retyped, _renamed, _resized, _described)


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """Return a warehouse in memory, for all inputs."""
    made = duckdb.connect(config={"threads": 1})
    migrate(made)
    return made


def load(path: Path) -> object:
    """Load a packed landing folder as `stepcast load FOLDER` does."""
    source, landing = path.with_name("source"), path.with_name("landing")
    for folder in (source, landing):
        shutil.rmtree(folder, ignore_errors=True)
    (source / "r1").mkdir(parents=True)
    for name, content in unpacked(path.read_bytes()).items():
        (source / "r1" / name).write_bytes(content)
    copy_runs(source, landing, [run_folder.name for run_folder in run_folders(source)])
    report = loader.load(landing, connection())
    if report.quarantined:
        raise BadInput(report.quarantined[0].reason)
    return report
