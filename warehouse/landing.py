"""Landing: where probes leave runs as Parquet, whole or not at all; quarantine of what is broken.

One run is one folder, `landing/<run_id>/<table>.parquet`, with raw files in `artefacts/`. Needs
pyarrow, not DuckDB, so that a bare node can land what it measured.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse import limits
from warehouse.durable_files import put_in_place, scratch, sync, write_text
from warehouse.landed_files import check_name, check_plain, seal, verify
from warehouse.records import BadInput, Run, Scenario, StepcastError, content_hash, error_context
from warehouse.tables import (
    CHUNK_ROWS,
    JSON_COLUMNS,
    SCHEMAS,
    check_rows,
    conform,
    one_line,
    stream,
)


def compact(schema: pa.Schema) -> dict[str, Any]:
    """Return options of `ParquetWriter`: times and counters as differences, the rest as words.

    Traces of operations take about half of what dictionaries alone make of them.
    """
    whole = [field.name for field in schema if pa.types.is_integer(field.type)]
    return {
        "compression": "zstd",
        "compression_level": 9,
        "use_dictionary": [name for name in schema.names if name not in whole],
        "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
    }


ARTEFACTS = "artefacts"
QUARANTINE = "quarantine"
_REMEMBERED_RUNS = 1 << 14
"""How many runs a process remembers, some kilobytes each."""
_NO_RUNS: Mapping[str, Run] = MappingProxyType({})
_NO_ARTEFACTS: Mapping[str, Path] = MappingProxyType({})


class ArrowStreamExportable(Protocol):
    """A polars frame, an Arrow table: anything that hands out its rows as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule with the stream (the Arrow PyCapsule interface)."""


def land(
    landing: Path,
    run: Run,
    scenario: Scenario | None,
    tables: Mapping[str, ArrowStreamExportable],
    artefacts: Mapping[str, Path] = _NO_ARTEFACTS,
) -> Path:
    """Write one run into the landing folder, atomically, and return its folder.

    `tables` are frames named as in `SCHEMAS` (not `run`, `scenario`) and without `run_id`; one
    that is a stream of batches (`pyarrow.RecordBatchReader`) is written as it comes, in memory of
    `CHUNK_ROWS` rows. `artefacts` are files to copy, by the name they get.

    Raises:
        BadInput: the run has landed before, or a frame does not fit its table.
        StepcastError: it could not be written, for example to a full disk; nothing of it is left.
    """
    target = landing / run.run_id
    check_name(run.run_id, "run id")
    if run.run_id == QUARANTINE:
        raise BadInput(f"run id {QUARANTINE!r} cannot name a folder of landed runs; choose another")
    nested = [name for name in artefacts if Path(name).name != name]
    if nested:
        raise BadInput(f"run {run.run_id}: artefact {nested[0]!r} is not a plain file name")
    if target.exists():
        raise BadInput(f"run {run.run_id} has landed before in {target}; choose another run_id")
    whole = _records(run, scenario) | dict(_frames(run.run_id, tables))
    landing.mkdir(parents=True, exist_ok=True)
    failure = f"run {run.run_id} did not land in {landing}"
    with error_context(failure, OSError, kind=StepcastError), scratch(landing) as folder:
        _write(folder, whole, artefacts)
        if not put_in_place(folder, target, durable=False):
            raise BadInput(f"run {run.run_id} has landed before in {target}")
    sync(landing)
    return target


def landed_runs(landing: Path, known: Mapping[str, Run] = _NO_RUNS) -> list[Run]:
    """Return every whole landed run; unreadable ones are left to the loader to quarantine.

    A process reads each once, and again if its file is another one than it was; those that are
    `known` by their id are not read.
    """
    runs = []
    for folder in run_folders(landing.absolute()):
        try:
            runs.append(known.get(folder.name) or _once_read(folder))
        except BadInput:
            continue
    return runs


def _once_read(folder: Path) -> Run:
    try:
        state = (folder / "run.parquet").lstat()
    except OSError:
        return landed_run(folder)
    check_plain(folder)
    return _read(folder, state.st_ino, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=_REMEMBERED_RUNS)
def _read(folder: Path, inode: int, modified_ns: int, size_bytes: int) -> Run:
    return landed_run(folder)


def run_folders(landing: Path) -> Iterator[Path]:
    """Yield the folders of landed runs, by name; not those being written nor the quarantine."""
    if landing.is_dir():
        with os.scandir(landing) as entries:
            names = sorted(entry.name for entry in entries if _is_of_run(entry))
        yield from (landing / name for name in names)


def _is_of_run(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir() and not entry.name.startswith(".") and entry.name != QUARANTINE


def read_tables(folder: Path) -> dict[str, pa.Table]:
    """Read and check all tables of one landed run; a table without a file is left out.

    Raises:
        BadInput: a file is unreadable, lacks columns, belongs to another run or scenario, or is
            not the one that landed.
    """
    tables = {file.stem: pa.concat_tables(_own(file)) for file in _files(folder)}
    verify(folder)
    return tables


def checked_files(folder: Path) -> tuple[list[Path], str]:
    """Check all tables of one landed run as `read_tables` does.

    Returns their files and the SHA-256 of the files' checksums. At most `CHUNK_ROWS` rows are in
    memory at once.
    """
    files = _files(folder)
    for file in files:
        for _ in _own(file):
            pass
    return files, verify(folder)


def _files(folder: Path) -> list[Path]:
    """Return the Parquet files of a run whose own record and scenario agree."""
    run = landed_run(folder)
    scenario = folder / "scenario.parquet"
    rows = _rows(scenario) if scenario.exists() else []
    named = [content_hash(row["canonical"]) for row in rows]
    if named != [row["scenario_id"] for row in rows]:
        raise BadInput("scenario.parquet: scenario_id is not the hash of the canonical JSON")
    with error_context("scenario.parquet: no scenario", ValueError):
        for row in rows:
            Scenario.model_validate_json(row["canonical"])
    if named != ([] if run.scenario_id is None else [run.scenario_id]):
        raise BadInput(f"run.parquet names scenario {run.scenario_id}, scenario.parquet: {named}")
    files = sorted(folder.glob("*.parquet"))
    if folder / "run.parquet" not in files:
        raise BadInput("run.parquet is missing")
    return files


def _own(file: Path) -> Iterator[pa.Table]:
    for chunk in stream(file):
        strangers = set(chunk["run_id"].unique().to_pylist()) - {file.parent.name}
        if strangers:
            raise BadInput(f"{file.name} holds rows of other runs: {sorted(strangers)}")
        yield chunk


def _records(run: Run, scenario: Scenario | None) -> dict[str, Iterable[pa.Table]]:
    expected = None if scenario is None else scenario.scenario_id
    if run.scenario_id != expected:
        raise BadInput(f"run {run.run_id} names scenario {run.scenario_id}, was given {expected}")
    row = run.model_dump()
    row |= {name: json.dumps(dict(row[name]), sort_keys=True) for name in JSON_COLUMNS}
    tables: dict[str, Iterable[pa.Table]] = {"run": [pa.Table.from_pylist([row], SCHEMAS["run"])]}
    if scenario is not None:
        named = {"run_id": run.run_id, "scenario_id": expected}
        row = {**named, "canonical": scenario.canonical_json()}
        tables["scenario"] = [pa.Table.from_pylist([row], SCHEMAS["scenario"])]
    return tables


def _frames(
    run_id: str, tables: Mapping[str, ArrowStreamExportable]
) -> Iterator[tuple[str, Iterator[pa.Table]]]:
    allowed = sorted(set(SCHEMAS) - {"run", "scenario"})
    for name, frame in tables.items():
        if name not in allowed:
            raise BadInput(f"run {run_id}: no table {name!r}; the tables are {', '.join(allowed)}")
        batches: pa.RecordBatchReader = frame
        # Through the C interface an error of the producer would lose its type.
        if not isinstance(frame, pa.RecordBatchReader):
            batches = pa.RecordBatchReader.from_stream(frame)
        extra = sorted(set(batches.schema.names) - set(SCHEMAS[name].names[1:]))
        if extra:
            raise BadInput(f"run {run_id}, table {name}: no such columns: {', '.join(extra)}")
        chunks = _checked(name, run_id, batches)
        yield name, chain([next(chunks)], chunks)


def _checked(name: str, run_id: str, batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yield the rows with their `run_id`, first none of them so that columns are checked."""
    where, first = f"run {run_id}, table {name}", 1
    for chunk in chain([batches.schema.empty_table()], _row_groups(batches)):
        owner = pa.repeat(pa.scalar(run_id), chunk.num_rows)
        rows = conform(SCHEMAS[name], chunk.add_column(0, "run_id", owner), where)
        check_rows(name, rows, where, first)
        first += rows.num_rows
        yield rows


def _row_groups(batches: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Gather small batches to chunks of at least `CHUNK_ROWS` rows, but for the last."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(batch.num_rows for batch in gathered) >= CHUNK_ROWS:
            yield pa.Table.from_batches(gathered)
            gathered = []
    yield pa.Table.from_batches(gathered, batches.schema)


def landed_run(folder: Path) -> Run:
    """Return the run that landed in `folder`.

    Raises:
        BadInput: its run.parquet is missing, unreadable, holds no run or that of another folder;
            its name can be no run's, or it holds symbolic links or other things that are no files.
    """
    check_name(folder.name, "run id")
    check_plain(folder)
    rows = _rows(folder / "run.parquet")
    if not rows:
        raise BadInput("run.parquet: expected one row, found none")
    run = run_of(rows[0])
    if run.run_id != folder.name:
        raise BadInput(f"run.parquet holds rows of other runs: {[run.run_id]}")
    return run


def run_of(row: Mapping[str, Any]) -> Run:
    """Return the run of a row of table `run`.

    Raises:
        BadInput: it is none.
    """
    for name in JSON_COLUMNS:
        if len(row[name] or "") > limits.JSON_BYTES:
            raise BadInput(f"run.parquet: {name} is longer than {limits.JSON_BYTES:,} characters")
    try:
        parsed = {name: json.loads(row[name]) for name in JSON_COLUMNS}
        return Run.model_validate({**row, **parsed})
    except ValueError as error:
        raise BadInput(f"run.parquet: {one_line(error)}") from error
    except RecursionError as error:
        raise BadInput("run.parquet: host, software or config is nested too deep") from error


def _rows(file: Path) -> list[dict[str, Any]]:
    """Return the row of a table that has at most one.

    Raises:
        BadInput: as `stream`, there are more rows, or a text is no UTF-8.
    """
    rows: list[dict[str, Any]] = []
    with error_context(f"{file.name}: a text is no UTF-8", UnicodeDecodeError):
        for chunk in stream(file):
            if len(rows) + chunk.num_rows > 1:
                raise BadInput(f"{file.name}: expected one row, found more")
            rows += chunk.to_pylist()
    return rows


def _write(
    folder: Path, tables: Mapping[str, Iterable[pa.Table]], artefacts: Mapping[str, Path]
) -> None:
    folder.mkdir()
    for name, chunks in tables.items():
        file = folder / f"{name}.parquet"
        with pq.ParquetWriter(file, SCHEMAS[name], **compact(SCHEMAS[name])) as writer:
            for chunk in filter(len, chunks):
                writer.write_table(chunk, row_group_size=CHUNK_ROWS)
        sync(file)
    seal(folder)
    if artefacts:
        (folder / ARTEFACTS).mkdir()
        for name, source in artefacts.items():
            sync(shutil.copyfile(source, folder / ARTEFACTS / name))
        sync(folder / ARTEFACTS)
    sync(folder)


# The quarantine: what could not be loaded, out of the way of what can, each with its reason.


REASON = "reason.txt"


@dataclass(frozen=True)
class QuarantinedRun:
    """A landed run that could not be loaded, why, and where its files are now.

    That is the quarantine, or the landing folder where the machine could not read or move them.
    """

    run_id: str
    reason: str
    folder: Path


def set_aside(folder: Path, run_id: str, reason: str) -> QuarantinedRun:
    """Move a folder beside landed runs to the quarantine, with its reason.

    A run that was set aside before gets a number behind its name. What the machine cannot move
    stays where it is.
    """
    target = folder.parent / QUARANTINE / run_id
    copies = 1
    while target.exists():
        copies += 1
        target = target.with_name(f"{run_id}.{copies}")
    try:
        target.parent.mkdir(exist_ok=True)
        os.rename(folder, target)
    except OSError as failure:
        return QuarantinedRun(run_id, f"{reason}; not moved: {failure}", folder)
    with suppress(OSError):  # the disk may be full; the report has the reason too
        write_text(target / REASON, reason + "\n")  # anew: a link there may lead anywhere
    return QuarantinedRun(run_id, reason, target)
