"""Landed runs, from one landing folder to another."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from warehouse.durable import remove, sync, temporary
from warehouse.foreign import check_file, check_folder, check_name
from warehouse.landing import ARTEFACTS
from warehouse.records import BadInput, StepcastError

# Without O_NONBLOCK, opening a pipe would wait for whoever writes to it.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def copy_runs(
    source: Path, landing: Path, run_ids: Iterable[str], *, artefacts: bool = True
) -> int:
    """Copy those runs that `landing` lacks as `copy_run` does, and return how many."""
    return sum(copy_run(source, landing, run_id, artefacts=artefacts) for run_id in run_ids)


def copy_run(source: Path, landing: Path, run_id: str, *, artefacts: bool = True) -> bool:
    """Copy a run to disk, whole or not at all, unless `landing` has it; return whether it did.

    Its raw artefacts are copied too unless `artefacts` is false. No symbolic link is followed.

    Raises:
        BadInput: its id cannot name a folder, or it holds what is neither file nor folder.
        StepcastError: it could not be read or written; nothing of it is left.
    """
    check_name(run_id, "run id")
    target = landing / run_id
    if target.exists():
        return False
    landing.mkdir(parents=True, exist_ok=True)
    fresh = temporary(landing)
    try:
        _copy(source / run_id, fresh, artefacts=artefacts)
        os.rename(fresh, target)
        sync(landing)
    except BadInput as error:
        raise BadInput(f"run {run_id} was not copied: {error}") from error
    except OSError as error:
        raise StepcastError(f"run {run_id} was not copied to {landing}: {error}") from error
    finally:
        remove(fresh)
    return True


def _copy(source: Path, target: Path, *, artefacts: bool) -> None:
    check_folder(source.name, source.lstat().st_mode)
    for name, folders, files, descriptor in os.fwalk(source, follow_symlinks=False):
        there = target / Path(name).relative_to(source)
        there.mkdir()
        if not artefacts and there == target and ARTEFACTS in folders:
            folders.remove(ARTEFACTS)
        for folder in folders:
            status = os.stat(folder, dir_fd=descriptor, follow_symlinks=False)
            check_folder(folder, status.st_mode)
        for file in files:
            _copy_file(descriptor, file, there / file)
        sync(there)


def _copy_file(folder: int, name: str, target: Path) -> None:
    """Copy the file `name` of the folder with this descriptor, and its time of change."""
    check_file(name, os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    with open(os.open(name, _READ, dir_fd=folder), "rb") as reading, target.open("xb") as writing:
        status = os.fstat(reading.fileno())
        check_file(name, status.st_mode)
        shutil.copyfileobj(reading, writing, 1 << 20)
        writing.flush()
        os.utime(writing.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(writing.fileno())
