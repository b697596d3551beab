"""Landing prefixes: places where several sites leave their runs, and one warehouse takes them.

A folder (a mounted disk, a memory stick) is a landing folder like that of a home: a run is there
once its folder has its name. In S3, which renames nothing, `warehouse.bucket` has another mark.
"""

import os
import re
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Protocol

from warehouse import limits
from warehouse.durable_files import remove
from warehouse.landing import run_folders
from warehouse.records import BadInput, StepcastError, content_hash
from warehouse.sets import is_sets
from warehouse.transfer import copy_folder, put_in_place

PREFIX = "STEPCAST_PREFIX"
"""The environment variable that names the prefix of this site: a folder or s3://bucket/name."""
_UNFINISHED = ".push-"
_ABANDONED_S = 24 * 3600.0
_SCHEME = re.compile(r"[a-z0-9+.-]+://")


class Prefix(Protocol):
    """Where runs of several sites are, each whole or not there."""

    @property
    def name(self) -> str:
        """The place as people write it."""

    def runs(self) -> Iterator[str]:
        """Yield the ids of the runs that are there, as somebody wrote them: they may be wrong.

        Raises:
            StepcastError: the place does not answer.
        """

    def edition(self, run_id: str) -> str:
        """Return what changes when a run is put there again.

        Raises:
            StepcastError: the place does not answer.
        """

    def fetch(self, run_id: str, target: Path) -> None:
        """Bring a run into the new folder `target`.

        Raises:
            BadInput: it is not as its site left it, or is more than `limits` says of a run.
            Unreachable: the place does not answer.
            StepcastError: this run cannot be read now.
            OSError: it could not be read or written.
        """

    def put(self, folder: Path) -> bool:
        """Put a landed run there, whole or not at all; return false if it was there already.

        Raises:
            BadInput: it holds what cannot be put there.
            StepcastError: it was not put there, and the place may hold a part that is no run.
        """


class PrefixUnreachable(StepcastError):
    """A place does not answer, so that going on with other runs is of no use."""


def prefix_of(place: str) -> Prefix:
    """Return the prefix that somebody named.

    Raises:
        BadInput: it is no folder, holds sets, or is of a kind that we do not know.
    """
    if place.startswith("s3://"):
        from warehouse.bucket import BucketPrefix

        return BucketPrefix.of(place)
    if _SCHEME.match(place):
        raise BadInput(f"{place} is no place for runs; use a folder or s3://bucket/name")
    folder = Path(place)
    if not folder.is_dir():
        raise BadInput(
            f"{place} is not a folder; expected one folder per landed run in it (make or mount it "
            "first), or s3://bucket/name"
        )
    if is_sets(folder):
        raise BadInput(
            f"{place} holds sets, no place to push to or watch; `stepcast load` takes it"
        )
    return FolderPrefix(folder)


def configured_prefix() -> Prefix | None:
    """Return the prefix that the environment names, or None.

    Raises:
        BadInput: as `prefix_of`.
    """
    place = os.environ.get(PREFIX)
    return prefix_of(place) if place else None


class FolderPrefix:
    """A landing folder that others can reach. Files are on disk before a run has its name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        """The path."""
        return str(self._folder)

    def runs(self) -> Iterator[str]:
        """Yield the names of the folders of landed runs."""
        try:
            folders = list(run_folders(self._folder))
        except OSError as error:
            raise PrefixUnreachable(f"{self.name} cannot be read: {error}; try again") from error
        yield from (folder.name for folder in folders)

    def edition(self, run_id: str) -> str:
        """Return a hash of the names, sizes and times of the files, and the time of the folder."""
        folder = self._folder / run_id
        with os.scandir(folder) as entries:
            states = [
                (entry.name, entry.stat(follow_symlinks=False))
                for entry in islice(entries, limits.RUN_FILES)
            ]
        found = sorted((name, entry.st_size, entry.st_mtime_ns) for name, entry in states)
        return content_hash(f"{folder.lstat().st_ctime_ns} {found}")

    def fetch(self, run_id: str, target: Path) -> None:
        """Copy a run as `copy_folder` does."""
        copy_folder(self._folder / run_id, target)

    def put(self, folder: Path) -> bool:
        """Copy a run under a hidden name, and rename it."""
        fresh = self._folder / f"{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            self._sweep()
            copy_folder(folder, fresh)
            return put_in_place(fresh, self._folder / folder.name)
        except OSError as error:
            raise StepcastError(
                f"run {folder.name} was not put into {self.name}: {error}; push again"
            ) from error
        finally:
            remove(fresh)

    def _sweep(self) -> None:
        """Remove what killed sites left; a process id says nothing of another machine's process."""
        for path in self._folder.glob(f"{_UNFINISHED}*"):
            if time.time() - _changed(path) > _ABANDONED_S:
                remove(path)


def _changed(folder: Path) -> float:
    """Return when a folder or a thing in it changed last; now if it is gone."""
    try:
        return max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
    except FileNotFoundError:
        return time.time()
