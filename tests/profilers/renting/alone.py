"""A home that is the stand-in EC2's alone: what it rents is never mixed with what AWS bills."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from profilers.renting.book import Book, Entry, InstanceEnd, LaunchRefusal
from studies.renting import land_book
from warehouse.home import CHECKOUT, home
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

FOLDER = "stand-in"
"""Folder of such a home: marks it, and has what belongs to instances."""
HOME = CHECKOUT / ".stepcast" / "ec2-stand-in"


@contextmanager
def own_home() -> Iterator[Path]:
    """Choose the home of this process and of its commands; yield the stand-in's folder in it.

    That is `STEPCAST_HOME`, else one of its own.

    Raises:
        BadInput: it is somebody's home already, or another stand-in is there.
    """
    os.environ.setdefault("STEPCAST_HOME", str(HOME))
    folder = home() / FOLDER
    if home().is_dir() and any(home().iterdir()) and not folder.exists():
        raise BadInput(
            f"{home()} is no home of the stand-in's, and what it rents must not be mixed with what "
            "is there; let STEPCAST_HOME name a new folder, or leave it out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"another stand-in is at work in {home()}; wait until it ends") from None
        end_book(folder)
        try:
            yield _emptied(folder)
        finally:
            end_book(folder)
            _emptied(folder)


def _emptied(folder: Path) -> Path:
    """Remove all but the lock from a folder; return it."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()
    return folder


def end_book(folder: Path) -> None:
    """Write down the ends of instances of which no provider knows any more.

    They have ended with the stand-in that launched them: when it last looked after them, its folder
    was changed. A real provider would still know; this one forgets.
    """
    book, now = Book(), datetime.now(UTC)
    entries = book.read()
    last = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    ended: list[Entry] = [
        InstanceEnd(id=id_, seconds=max((last - intent.at).total_seconds(), 0.0), at=now)
        for id_, intent in entries.living.items()
    ]
    unknown: list[Entry] = [
        LaunchRefusal(
            token=intent.token, code="StandInEnded", reason="it went with the stand-in", at=now
        )
        for intent in entries.unanswered
    ]
    if ended or unknown:
        book.write(*ended, *unknown)
        land_book(home())
        Warehouse(home()).load()
