"""Runs that are kept: a folder of landed runs or one of sets, whichever it is."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from warehouse.landed_files import SUMS
from warehouse.landing import landed_runs, read_tables
from warehouse.records import Run
from warehouse.sets import Sets, is_sets
from warehouse.transfer import copy_runs

_State = tuple[tuple[str, int, int], ...]


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
        BadInput: as `copy_runs` and `Sets.unpack`.
        StepcastError: it could not be read or written.
    """
    if is_sets(folder):
        return _opened(folder).unpack(landing, run_ids, durable=durable)
    return copy_runs(folder, landing, run_ids)


def _opened(folder: Path) -> Sets:
    """Open sets, once as long as they do not change: that reads all of their bytes."""
    found = [(path, path.stat()) for path in sorted(folder.glob(f"*/{SUMS}"))]
    state = tuple((str(path), status.st_mtime_ns, status.st_ino) for path, status in found)
    return _of_state(folder, state)


@lru_cache(maxsize=2)
def _of_state(folder: Path, state: _State) -> Sets:
    return Sets(folder)
