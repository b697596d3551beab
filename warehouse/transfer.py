"""Landed runs, from one landing folder to another."""

import os
from pathlib import Path

from warehouse import limits
from warehouse.durable_files import put_in_place, scratch, sweep, sync
from warehouse.landed_files import check_folder, check_name, open_plain, verify
from warehouse.landing import QUARANTINE, run_folders
from warehouse.records import BadInput, StepcastError, error_context
from warehouse.tables import one_line

_CHUNK_BYTES = 1 << 20


def copy_landed(source: Path, landing: Path) -> tuple[int, list[str]]:
    """Copy the runs of another landing folder that `landing` lacks, each whole or not at all.

    A run that is not as it landed is not copied, nor one that was set aside here before.

    Returns:
        How many were copied, and a line about each run that was not and should have been.

    Raises:
        BadInput: the source is no folder.
    """
    if not source.is_dir():
        raise BadInput(f"{source} is not a folder; expected one folder per landed run in it")
    sweep(landing)
    copied, lines = 0, []
    for folder in run_folders(source):
        aside = landing / QUARANTINE / folder.name
        if (landing / folder.name).exists():
            continue
        if aside.exists():
            lines.append(f"run {folder.name} was set aside before: remove {aside} to try it again")
            continue
        try:
            verify(folder)
            copied += copy_run(source, landing, folder.name)
        except (StepcastError, OSError) as error:
            lines.append(f"run {folder.name!r:.220} was left in {source}: {one_line(error)}")
    return copied, lines


def copy_run(source: Path, landing: Path, run_id: str) -> bool:
    """Copy a run to disk, whole or not at all, unless `landing` has it; return whether it did.

    No symbolic link is followed.

    Raises:
        BadInput: its id cannot name a folder, or `copy_folder` refuses it.
        StepcastError: it could not be read or written; nothing of it is left.
    """
    check_name(run_id, "run id")
    target = landing / run_id
    if target.exists():
        return False
    landing.mkdir(parents=True, exist_ok=True)
    failure = f"run {run_id} was not copied"
    with (
        error_context(f"{failure} to {landing}", OSError, kind=StepcastError),
        error_context(failure),
        scratch(landing) as fresh,
    ):
        copy_folder(source / run_id, fresh)
        return put_in_place(fresh, target)


def copy_folder(source: Path, target: Path) -> None:
    """Copy the folder of a run to disk; no symbolic link is followed.

    Raises:
        BadInput: it holds what is neither file nor folder, or more than `limits` says of a run.
        OSError: it could not be read or written.
    """
    check_folder(source.name, source.lstat().st_mode)
    file_count = size_bytes = 0
    for name, folders, files, descriptor in os.fwalk(source, follow_symlinks=False):
        inside = Path(name).relative_to(source)
        if len(inside.parts) > limits.DEPTH:
            raise BadInput(f"folders inside each other deeper than {limits.DEPTH}")
        destination = target / inside
        destination.mkdir()
        file_count += len(folders) + len(files)
        if file_count > limits.RUN_FILES:
            raise BadInput(f"it has more than {limits.RUN_FILES:,} files")
        for folder in folders:
            status = os.stat(folder, dir_fd=descriptor, follow_symlinks=False)
            check_folder(folder, status.st_mode)
        for file in files:
            size_bytes = _copy_file(descriptor, file, destination / file, size_bytes)
        sync(destination)


def _copy_file(folder: int, name: str, target: Path, size_bytes: int) -> int:
    """Copy the file `name` of the folder with this descriptor, and its time of change.

    `size_bytes` came of the run before; with this file's they are returned.

    Raises:
        BadInput: they are too many.
    """
    with open_plain(name, folder=folder) as reading, target.open("xb") as writing:
        status = os.fstat(reading.fileno())
        while chunk := reading.read(_CHUNK_BYTES):
            size_bytes += len(chunk)
            if size_bytes > limits.RUN_BYTES:
                raise BadInput(f"its files hold more than {limits.RUN_BYTES / 2**30:,.0f} GiB")
            writing.write(chunk)
        writing.flush()
        os.utime(writing.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.fsync(writing.fileno())
    return size_bytes
