"""Landed runs and sets of them, packed into one input: seeds, mutations of Parquet, loading."""

import io
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.mutation import Mutator
from warehouse import loader
from warehouse.landed_files import SUMS, seal
from warehouse.landing import run_folders
from warehouse.publication import migrate
from warehouse.records import BadInput
from warehouse.sets import copy_kept_runs, is_sets, kept_runs, pack
from warehouse.transfer import copy_runs

_REFERENCE = Path(__file__).parents[2] / "data" / "reference"
_RUNS = ("20261121T140234-links-140f6f5a", "20261121T140545-tf_throughput-80246392")
"""A profile and a measurement, of the smallest."""


@dataclass(frozen=True)
class Folder:
    """A folder of landed runs, or of sets of them, as one input; loaded as `stepcast load` does."""

    sets: bool

    @cache  # noqa: B019
    def seed(self) -> bytes:
        """Return the whole folder, packed."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "landing")
            copy_kept_runs(_REFERENCE, folder, _RUNS, durable=False)
            if self.sets:
                pack(folder, folder := Path(temporary, "sets"), _RUNS)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            return _packed({f"{file.relative_to(folder)}": file.read_bytes() for file in files})

    def mutated(self, random: Random) -> bytes:
        """Return the folder with one or two files changed, lost or replaced by another."""
        files = _unpacked(self.seed())
        for name in random.sample(sorted(files), random.choice((1, 1, 2))):
            if random.random() < 0.1:
                spare = random.choice(("edge.parquet", "x.parquet", "sample.parquet"))
                files[f"{name.rpartition('/')[0]}/{spare}"] = files.pop(name)[:4]
            elif name.endswith(SUMS) or random.random() < 0.3:
                files[name] = Mutator([files[name]], values=(), packed=False)(random)
            else:
                with suppress(pa.ArrowException, ValueError, TypeError, OverflowError):
                    files[name] = _rewritten(files[name], random)
        if random.random() < 0.9:  # sums that do not fit hide what comes after they were compared
            files = {name: content for name, content in files.items() if not name.endswith(SUMS)}
        return _packed(files)

    def load(self, path: Path) -> None:
        """Load a packed folder."""
        source, landing = path.with_name("source"), path.with_name("landing")
        for old in (source, landing):
            shutil.rmtree(old, ignore_errors=True)
        for name, content in _unpacked(path.read_bytes()).items():
            file = source / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if self.sets and is_sets(source):
            for day in source.iterdir():
                if not (day / SUMS).exists():
                    seal(day, durable=False)
            copy_kept_runs(
                source, landing, [run.run_id for run in kept_runs(source)], durable=False
            )
        else:
            copy_runs(source, landing, [run_folder.name for run_folder in run_folders(source)])
        report = loader.load(landing, _connection())
        if report.quarantined:
            raise BadInput(report.quarantined[0].reason)


LANDING, SETS = Folder(sets=False), Folder(sets=True)


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """Return a warehouse in memory, for all inputs."""
    made = duckdb.connect(config={"threads": 1})
    migrate(made)
    return made


def _packed(files: Mapping[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return whole.getvalue()


def _unpacked(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _rewritten(parquet: bytes, random: Random) -> bytes:
    """Return a file with a column of other values, of another kind or name, or other rows."""
    table = pq.read_table(io.BytesIO(parquet))
    i = random.randrange(table.num_columns)
    field, column, rows = table.schema.field(i), table.column(i), table.num_rows
    texts = ("", "x" * 100_000, "\x00", "../x", "[" * 3000, "{}", "null", "1", "r2")
    numbers = (0, -1, 2**15 - 1, 2**31 - 1, -(2**63), 2**63 - 1, float("nan"), float("inf"), 1e308)
    value = random.choice(texts if field.type == pa.string() else numbers)
    if field.type == pa.string() and column[0].as_py() and random.random() < 0.5:
        text = Mutator([column[0].as_py().encode()], packed=False)(random)
        value = text.decode(errors="ignore")
    changed = pa.array([random.choice((value, None)), *column.to_pylist()[1:]], field.type)
    other = random.choice(
        (
            *(pa.array([each] * rows) for each in ([1], {"a": 1}, b"\xff\xfe", 2**40, 1.5, True)),
            pa.array(["x" * 20_000] * rows).dictionary_encode(),
            pa.array([2**62] * rows, pa.timestamp("s")),
            pa.array([1] * rows, pa.decimal128(38, 0)),
            pa.nulls(rows),
        )
    )
    name = random.choice(("x", "", field.name.upper(), "a\nb", '"', "run_id", "*"))
    table = random.choice(
        (
            *[table.set_column(i, field.name, changed)] * 3,
            *[table.set_column(i, field.name, other)] * 2,
            table.set_column(i, name, column),
            table.append_column(field, column),
            table.remove_column(i),
            table.slice(0, 0),
            pa.concat_tables([table] * 1000),
            table.replace_schema_metadata({random.choice((b"pandas", b"ARROW:schema")): b"\xff"}),
        )
    )
    out, kind = io.BytesIO(), random.choice(("none", "zstd", "snappy", "gzip"))
    pq.write_table(table, out, compression=kind, use_dictionary=random.random() < 0.7)
    return out.getvalue()
