"""Several sites, one history: landed runs go to a prefix, and from there to one warehouse.

A prefix that is a folder (a mounted disk, a memory stick) is a landing folder like that of a home:
a run is there once its folder has its name. In S3, which renames nothing, `warehouse.bucket` has
another mark.
"""

import os
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from warehouse import limits
from warehouse.durable_files import remove, sweep, sync, temporary
from warehouse.landed_files import check_name, read_plain, verify
from warehouse.landing import QUARANTINE, QuarantinedRun, landed_run, run_folders, set_aside
from warehouse.records import (
    BadInput,
    MissingTool,
    PrefixUnreachable,
    Record,
    StepcastError,
    content_hash,
)
from warehouse.sets import is_sets
from warehouse.tables import one_line
from warehouse.transfer import RECEIVED, copy_folder, put_in_place

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
        files = sorted((name, entry.st_size, entry.st_mtime_ns) for name, entry in states)
        return content_hash(f"{folder.lstat().st_ctime_ns} {files}")

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


class Receipt(Record):
    """Where a run that was received is from; `edition` tells that it was put there again."""

    run_id: str
    prefix: str
    edition: str


@dataclass(frozen=True)
class PushReport:
    """What one push did: run ids, how many the prefix had already, and why others did not go."""

    pushed: tuple[str, ...]
    unchanged: int
    refused: tuple[str, ...]


@dataclass(frozen=True)
class ReceiveReport:
    """What one look at a prefix brought: run ids; runs set aside; what is wrong with others.

    `left` are lines about runs that could not be read now: the next look tries them again.
    `known_bad` were set aside at an earlier look, and have not changed since.
    """

    copied: tuple[str, ...]
    refused: tuple[QuarantinedRun, ...]
    left: tuple[str, ...]
    known_bad: tuple[str, ...]


def push(landing: Path, prefix: Prefix) -> PushReport:
    """Put each landed run that the prefix lacks there, whole or not at all.

    A run whose files are not those that landed is not put there; the others are.

    Raises:
        StepcastError: the prefix does not answer. What did not go goes with the next push.
    """
    runs_there = set(prefix.runs())
    pushed: list[str] = []
    refused: list[str] = []
    unchanged = 0
    for folder in run_folders(landing):
        if folder.name in runs_there:
            unchanged += 1
            continue
        try:
            landed_run(folder)
            verify(folder)
            new = prefix.put(folder)
        except (BadInput, FileNotFoundError) as error:
            if folder.exists():  # else it was set aside meanwhile
                refused.append(f"run {folder.name} was not pushed: {one_line(error)}")
            continue
        pushed += [folder.name] if new else []
        unchanged += not new
    return PushReport(tuple(pushed), unchanged, tuple(refused))


def waiting_runs(prefix: Prefix, landing: Path) -> Iterator[str]:
    """Yield the runs that `receive` would fetch: neither here, nor set aside as they are there.

    Raises:
        StepcastError: the prefix does not answer.
    """
    runs_here, bad = _here(landing)
    for run_id in prefix.runs():
        if run_id in runs_here or not _is_name(run_id):
            continue
        try:
            if _is_known(prefix, run_id, bad):
                continue
        except (PrefixUnreachable, MissingTool):
            raise
        except (StepcastError, OSError):
            continue  # it cannot be read now
        yield run_id


def receive(prefix: Prefix, landing: Path) -> ReceiveReport:
    """Bring the runs of a prefix that `landing` lacks, each whole or not at all.

    One that is not as its site left it is set aside with its reason, and fetched again only if it
    is put there again; the others still come. Nothing is loaded yet.

    Raises:
        StepcastError: the prefix does not answer; what has come stays.
    """
    landing.mkdir(parents=True, exist_ok=True)
    sweep(landing)
    runs_here, bad = _here(landing)
    copied: list[str] = []
    refused: list[QuarantinedRun] = []
    left: list[str] = []
    known_bad: list[str] = []
    for run_id in prefix.runs():
        if run_id in runs_here:
            continue
        try:
            _check_run_id(run_id)
            if _is_known(prefix, run_id, bad):
                known_bad.append(run_id)
            elif (aside := _fetch(prefix, run_id, landing)) is None:
                copied.append(run_id)
            else:
                refused.append(aside)
        except (PrefixUnreachable, MissingTool):
            raise
        except (StepcastError, OSError) as error:
            left.append(f"run {run_id!r:.220} was left in {prefix.name}: {one_line(error)}")
    return ReceiveReport(tuple(copied), tuple(refused), tuple(left), tuple(known_bad))


def _fetch(prefix: Prefix, run_id: str, landing: Path) -> QuarantinedRun | None:
    """Bring one run; return where it is if it was set aside."""
    receipt = Receipt(run_id=run_id, prefix=prefix.name, edition=prefix.edition(run_id))
    fresh = temporary(landing)
    try:
        try:
            prefix.fetch(run_id, fresh)
            _sign(fresh, receipt)
        except BadInput as error:
            # What was sent stays at the prefix, so that a site cannot fill this disk.
            remove(fresh)
            fresh.mkdir()
            _sign(fresh, receipt)
            return set_aside(fresh, run_id, f"{one_line(error)} (in {prefix.name})")
        put_in_place(fresh, landing / run_id)
        return None
    finally:
        remove(fresh)


def _sign(folder: Path, receipt: Receipt) -> None:
    (folder / RECEIVED).write_text(receipt.canonical_json() + "\n")
    sync(folder / RECEIVED)
    sync(folder)


def _here(landing: Path) -> tuple[set[str], dict[str, set[str]]]:
    """Return the runs that have landed, and the editions of each that were set aside."""
    bad: dict[str, set[str]] = {}
    for folder in run_folders(landing / QUARANTINE):
        if receipt := _receipt(folder):
            bad.setdefault(receipt.run_id, set()).add(receipt.edition)
    return {folder.name for folder in run_folders(landing)}, bad


def _receipt(folder: Path) -> Receipt | None:
    try:
        text = read_plain(folder / RECEIVED, limits.DOCUMENT_BYTES)
        return Receipt.model_validate_json(text)
    except (BadInput, OSError, ValidationError):
        return None


def _is_known(prefix: Prefix, run_id: str, bad: dict[str, set[str]]) -> bool:
    return run_id in bad and prefix.edition(run_id) in bad[run_id]


def _check_run_id(run_id: str) -> None:
    check_name(run_id, "run id")
    if run_id == QUARANTINE:
        raise BadInput(f"run id {QUARANTINE!r} cannot name a folder of landed runs")


def _is_name(run_id: str) -> bool:
    try:
        _check_run_id(run_id)
    except BadInput:
        return False
    return True
