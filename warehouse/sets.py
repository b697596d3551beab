"""Sets: landed runs packed as one Parquet file per day and table, `<YYYY-MM-DD>/<table>.parquet`.

Thousands of small files become a few: the day is that on which a run began (UTC), rows are sorted
by run, and the statistics of row groups say which runs a row group holds. `SHA256SUMS` of a day is
that of a landed run. Needs pyarrow, not DuckDB.

Runs that are kept are a folder of landed runs or one of sets, whichever it is.
"""

import fcntl
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.durable_files import put_in_place, remove, scratch, sweep, sync
from warehouse.landed_files import SUMS, check_name, check_plain, seal, verify
from warehouse.landing import (
    ARTEFACTS,
    checked_files,
    landed_run,
    landed_runs,
    read_tables,
    run_folders,
    run_of,
)
from warehouse.records import BadInput, Run, StepcastError, error_context
from warehouse.tables import CHUNK_ROWS, SCHEMAS, read, stream
from warehouse.transfer import copy_run

REPLACED = ".replaced-"
"""Begins the name of a day's set while a new one takes its place."""
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_AT_ONCE = 32
_QUICK: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
_SMALL: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 22,
    "use_dictionary": False,
    # One page for each column of a row group: what repeats is found only within a page.
    "max_rows_per_page": 1 << 20,
    "data_page_size": 32 * 2**20,
}
"""Reference measurements take three quarters of what `landing.compact` makes of them."""


def is_sets(folder: Path) -> bool:
    """Tell whether a folder holds sets and not landed runs."""
    return folder.is_dir() and any(_is_day(path) for path in folder.iterdir())


def sets_below(folder: Path) -> list[Path]:
    """Return the folders of sets that a folder of them is or holds; of anything else none."""
    if is_sets(folder):
        return [folder]
    return sorted(path for path in folder.iterdir() if is_sets(path)) if folder.is_dir() else []


class Sets:
    """The runs of a folder of sets. Opening it compares every file with its checksum."""

    def __init__(self, folder: Path) -> None:
        """Read which runs there are.

        Raises:
            BadInput: the folder holds landed runs too; a file is damaged, missing, or of another
                day; a run is there twice.
        """
        self._folder = folder
        self._days: dict[str, Path] = {}
        self._runs: dict[str, Run] = {}
        for day in _days(folder):
            for run in _runs_of(day):
                if other := self._days.get(run.run_id):
                    day_names = " and ".join(sorted({other.name, day.name}))
                    raise BadInput(
                        f"{folder}: run {run.run_id} is there twice, in {day_names}; take back the "
                        "change that brought it there"
                    )
                self._days[run.run_id], self._runs[run.run_id] = day, run

    def runs(self) -> list[Run]:
        """Return all runs, by id."""
        return [self._runs[run_id] for run_id in sorted(self._runs)]

    def tables(self, run_id: str) -> dict[str, pa.Table]:
        """Return all tables of a run that have rows.

        Raises:
            BadInput: there is no such run, or a file is unreadable or no known table.
        """
        tables = {
            file.stem: pa.concat_tables(_read(file, [run_id])) for file in _files(self._day(run_id))
        }
        return {name: rows for name, rows in tables.items() if rows.num_rows}

    def unpack(self, landing: Path, run_ids: Iterable[str], *, durable: bool = True) -> int:
        """Write those runs that `landing` lacks there, each whole or not at all; return how many.

        Unless `durable`, nobody waits for the disk: a power failure may leave parts of runs, which
        are not loaded because their checksums are wrong.

        Raises:
            BadInput: as `tables`.
            StepcastError: they could not be written.
        """
        wanted = sorted({run_id for run_id in run_ids if not (landing / run_id).exists()})
        days = sorted({self._day(run_id) for run_id in wanted})
        return sum(
            self._unpack(
                day, landing, [run_id for run_id in wanted if self._days[run_id] == day], durable
            )
            for day in days
        )

    def _day(self, run_id: str) -> Path:
        if run_id not in self._days:
            raise BadInput(f"{self._folder} holds no run {run_id}")
        return self._days[run_id]

    def _unpack(self, day: Path, landing: Path, run_ids: list[str], durable: bool) -> int:
        landing.mkdir(parents=True, exist_ok=True)
        failure = f"set {day} was not unpacked to {landing}"
        with error_context(failure, OSError, kind=StepcastError), scratch(landing) as fresh:
            for run_id in run_ids:
                (fresh / run_id).mkdir(parents=True)
            for file in _files(day):
                _split(file, fresh, run_ids)
            for run_id in run_ids:
                seal(fresh / run_id, durable=False)
            if durable:
                # Together, they wait for the disk once and not thousands of times.
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    list(pool.map(sync, fresh.glob("*/*")))
                    list(pool.map(sync, fresh.iterdir()))
            placed = sum(
                put_in_place(fresh / run_id, landing / run_id, durable=False) for run_id in run_ids
            )
            if durable:
                sync(landing)
            return placed


def day_of(run: Run) -> str:
    """Return the name of the set that holds a run: the day on which it began, in UTC."""
    return run.started_at.strftime("%Y-%m-%d")


def ends_of_runs(table: pa.Table) -> Iterator[tuple[str, int]]:
    """Yield each run of rows that are sorted by run, and the place after its last row."""
    encoded = pc.run_end_encode(table["run_id"].combine_chunks())
    yield from zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True)


def _is_day(path: Path) -> bool:
    name = path.name.removeprefix(REPLACED)
    return bool(_DAY.fullmatch(name)) and (path / "run.parquet").exists()


def _days(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.iterdir() if (path / "run.parquet").exists())
    days = [path for path in paths if _is_day(path) and not path.name.startswith(REPLACED)]
    for path in paths:
        name = path.name.removeprefix(REPLACED)
        if name != path.name and folder / name not in days:
            raise BadInput(f"{folder} lacks {name}: rename {path.name} in it to {name}")
        if not _is_day(path) and not path.name.startswith("."):
            raise BadInput(f"{folder} holds sets and the landed run {path.name}; move that away")
    return days


def _runs_of(day: Path) -> list[Run]:
    with error_context(f"set {day}", BadInput, UnicodeDecodeError):
        check_plain(day)
        if not (day / SUMS).exists():
            raise BadInput(f"{SUMS} is missing")
        verify(day)
        rows = pa.concat_tables(stream(day / "run.parquet")).to_pylist()
        runs = [run_of(row) for row in rows]
        for run in runs:
            check_name(run.run_id, "run id")
            if day_of(run) != day.name:
                raise BadInput(f"run {run.run_id} began on {day_of(run)}")
    return runs


def _files(day: Path) -> list[Path]:
    return sorted(day.glob("*.parquet"))


def _read(file: Path, run_ids: Collection[str]) -> Iterator[pa.Table]:
    with error_context(f"set {file.parent}"):
        yield from stream(file, run_ids)


def _split(file: Path, target: Path, run_ids: Collection[str]) -> None:
    """Write the rows of each run to `<run>/<table>.parquet`."""
    for run_id, pieces in groupby(_pieces(_read(file, run_ids)), key=itemgetter(0)):
        path = target / run_id / file.name
        if path.exists():
            raise BadInput(f"set {file.parent}: rows of {run_id} are apart in {file.name}")
        with pq.ParquetWriter(path, SCHEMAS[file.stem], **_QUICK) as writer:
            for _, piece in pieces:
                writer.write_table(piece, row_group_size=CHUNK_ROWS)


def _pieces(chunks: Iterable[pa.Table]) -> Iterator[tuple[str, pa.Table]]:
    for chunk in filter(len, chunks):
        start = 0
        for run_id, end in ends_of_runs(chunk):
            yield run_id, chunk.slice(start, end - start)
            start = end


# Packing: landed runs into sets (`warehouse.sets`), once and for all.


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
        failure = f"runs were not packed into {folder}"
        with error_context(failure, OSError, kind=StepcastError), ExitStack() as stack:
            fresh = {day: stack.enter_context(scratch(folder)) for day in sorted(new)}
            for day, path in fresh.items():
                _write(folder / day, new[day], path)
            for day, path in fresh.items():
                _put(path, folder / day)
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
    with error_context(f"run {run.name} was not packed"):
        landed = landed_run(run)
        checked_files(run)
        if artefacts and (run / ARTEFACTS).exists():
            raise BadInput(f"it has raw artefacts, which sets do not hold; see {run / ARTEFACTS}")
        if folders := {path.name for path in run.iterdir() if path.is_dir()} - {ARTEFACTS}:
            raise BadInput(f"{min(folders)} is no table")
    return day_of(landed)


def _write(day: Path, runs: Sequence[Path], fresh: Path) -> None:
    """Write the set of a day with its old runs and new ones."""
    fresh.mkdir()
    names = {file.name for place in (day, *runs) for file in place.glob("*.parquet")}
    for name in sorted(names):
        files = (place / name for place in (day, *runs))
        rows = pa.concat_tables([read(file) for file in files if file.exists()])
        with pq.ParquetWriter(fresh / name, rows.schema, **_SMALL) as writer:
            for group in _row_groups(rows.sort_by("run_id")):
                writer.write_table(group, row_group_size=_ROWS)
        sync(fresh / name)
    seal(fresh)
    sync(fresh)


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


def kept_runs(folder: Path) -> list[Run]:
    """Return every whole run of a folder of landed runs or sets, by id.

    Raises:
        BadInput: the sets are bad; landed runs that are unreadable are left out.
    """
    return _opened(folder).runs() if is_sets(folder) else landed_runs(folder)


def kept_tables(folder: Path, run_id: str) -> dict[str, pa.Table]:
    """Return all tables of a run in a folder of landed runs or sets; those it has not are left out.

    Raises:
        BadInput: as `read_tables` and `Sets.tables`.
    """
    landed = folder / run_id
    if landed.exists() or not is_sets(folder):
        return read_tables(landed)
    return _opened(folder).tables(run_id)


def copy_kept_runs(
    folder: Path, landing: Path, run_ids: Iterable[str], *, durable: bool = True
) -> int:
    """Bring those runs of a folder of landed runs or sets that `landing` lacks; return how many.

    Each is there whole or not at all, with the same rows of the same tables. Unless `durable`,
    those of sets may not survive a power failure, and come sooner.

    Raises:
        BadInput: as `copy_run` and `Sets.unpack`.
        StepcastError: it could not be read or written.
    """
    if is_sets(folder):
        return _opened(folder).unpack(landing, run_ids, durable=durable)
    return sum(copy_run(folder, landing, run_id) for run_id in run_ids)


def _opened(folder: Path) -> Sets:
    """Open sets, once as long as they do not change: that reads all of their bytes."""
    statuses = [(path, path.stat()) for path in sorted(folder.glob(f"*/{SUMS}"))]
    state = tuple((str(path), status.st_mtime_ns, status.st_ino) for path, status in statuses)
    return _of_state(folder, state)


@lru_cache(maxsize=2)
def _of_state(folder: Path, state: tuple[tuple[str, int, int], ...]) -> Sets:
    return Sets(folder)
