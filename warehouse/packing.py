"""Packing: landed runs into sets (`warehouse.sets`), once and for all."""

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.compact import smallest
from warehouse.copying import RECEIVED
from warehouse.durable import remove, sweep, sync, temporary
from warehouse.landing import ARTEFACTS, checked_files, landed_run, run_folders
from warehouse.records import BadInput, StepcastError
from warehouse.sets import (
    REPLACED,
    WITHOUT_ROWS,
    Sets,
    day_of,
    ends_of_runs,
    is_sets,
    without_rows,
)
from warehouse.sums import seal
from warehouse.tables import CHUNK_ROWS, SCHEMAS, read

_ROWS = 4 * CHUNK_ROWS
"""The most rows of a row group: those of several runs until there are `CHUNK_ROWS`, or of one."""


def pack(landing: Path, folder: Path, run_ids: Iterable[str], *, artefacts: bool = True) -> int:
    """Add those landed runs that a folder of sets lacks, and return how many.

    A day that gets runs is written anew beside the old one and takes its place when it is whole;
    other days stay as they are. Who packs a second time changes nothing. Meanwhile, another who
    packs waits. All rows of one table and day are in memory at once.

    Sets hold tables only: a run with raw artefacts is refused, or packed without them if
    `artefacts` is false.

    Raises:
        BadInput: as `checked_files`; the sets that are there are bad; `folder` holds landed runs; a
            run has artefacts.
        StepcastError: a set could not be written; no day was changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        sweep(folder)
        _mend(folder)
        if not is_sets(folder) and (landed := next(run_folders(folder), None)) is not None:
            raise BadInput(f"{folder} holds landed runs ({landed.name}), not sets; name another")
        known = {run.run_id for run in Sets(folder).runs()}
        new: dict[str, list[Path]] = defaultdict(list)
        for run_id in sorted(set(run_ids) - known):
            new[_checked(landing / run_id, artefacts)].append(landing / run_id)
        fresh = {day: temporary(folder) for day in sorted(new)}
        try:
            for day, path in fresh.items():
                _write(folder / day, new[day], path)
            for day, path in fresh.items():
                _put(path, folder / day)
        except OSError as error:
            raise StepcastError(f"runs were not packed into {folder}: {error}") from error
        finally:
            for path in fresh.values():
                remove(path)
    return sum(map(len, new.values()))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _mend(folder: Path) -> None:
    """Finish what a writer did that was killed while one day took another's place."""
    for old in folder.glob(f"{REPLACED}*"):
        day = folder / old.name.removeprefix(REPLACED)
        if day.exists():
            remove(old)
        else:
            os.rename(old, day)


def _checked(run: Path, artefacts: bool) -> str:
    """Return the day of a landed run that can be packed."""
    try:
        found = landed_run(run)
        checked_files(run)
        if artefacts and (run / ARTEFACTS).exists():
            raise BadInput(f"it has raw artefacts, which sets do not hold; see {run / ARTEFACTS}")
        extra = sorted(
            one.name for one in run.iterdir() if one.is_dir() and one.name not in (ARTEFACTS,)
        )
        if extra:
            raise BadInput(f"{extra[0]} is neither a table nor {RECEIVED}")
    except BadInput as error:
        raise BadInput(f"run {run.name} was not packed: {error}") from error
    return day_of(found)


def _write(day: Path, runs: Sequence[Path], fresh: Path) -> None:
    """Write the set of a day with its old runs and new ones."""
    fresh.mkdir()
    names = {file.name for place in (day, *runs) for file in place.glob("*.parquet")}
    for name in sorted(names):
        old = [day / name] if (day / name).exists() else []
        new = {run.name: read(run / name) for run in runs if (run / name).exists()}
        empty = {run_id for run_id, table in new.items() if not len(table)}
        empty.update(*map(without_rows, old))
        rows = pa.concat_tables([*map(read, old), *new.values()])
        _write_table(rows.sort_by("run_id"), sorted(empty), fresh / name)
    seal(fresh)
    sync(fresh)


def _write_table(rows: pa.Table, empty: Sequence[str], file: Path) -> None:
    schema = SCHEMAS[file.stem]
    if empty:
        schema = schema.with_metadata({WITHOUT_ROWS: json.dumps(list(empty))})
    with pq.ParquetWriter(file, schema, **smallest(rows)) as writer:
        for group in _row_groups(rows):
            writer.write_table(group, row_group_size=_ROWS)
    sync(file)


def _row_groups(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield rows of whole runs, `CHUNK_ROWS` or more but for the last."""
    start = 0
    for _, end in ends_of_runs(rows) if len(rows) else ():
        if end - start >= CHUNK_ROWS:
            yield rows.slice(start, end - start)
            start = end
    if start < len(rows):
        yield rows.slice(start)


def _put(fresh: Path, day: Path) -> None:
    old = day.with_name(REPLACED + day.name)
    if day.exists():
        os.rename(day, old)
    os.rename(fresh, day)
    sync(day.parent)
    remove(old)
