"""Who made a thing, so that what a killed maker left is found; folders of this user alone.

Namespaces, control groups, instances, and folders on nodes are called
`stepcast-<home>-<owner>-<serial>-<what>`. <home> is a random number that a home keeps, <owner> one
that a process draws. As long as the process lives, it holds the lock of its folder
`run/<owner>` in the home. Process ids would not do: those of another container mean nothing here.

The folder holds the process's temporary files, and goes with it. Of a killed process it stays.
"""

import atexit
import fcntl
import itertools
import os
import re
import secrets
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from warehouse.home import home
from warehouse.records import BadInput, error_context

PREFIX = "stepcast"
RUN = "run"
"""Folder of a home, this user's alone: its number, and what processes need while they live."""
_TOKEN, _LOCK = "token", "lock"
_TOKEN_BYTES, _OWNER_BYTES = 6, 6
_NAME = re.compile(rf"{PREFIX}-(?P<home>[0-9a-f]{{12}})-(?P<owner>[0-9a-f]{{12}})-\d+-")
_REMEMBERED_S = 30 * 86_400
"""How long the lock of a killed process stays: what it left may turn up later, as instances do."""
_serials = itertools.count()
_folders: dict[tuple[Path, int], Path] = {}
_remembered: set[Path] = set()


def new_prefix() -> str:
    """Return a name prefix that no other cluster of this or any other process uses.

    Raises:
        BadInput: the home cannot be written, or is another user's.
    """
    return f"{PREFIX}-{token()}-{folder().name}-{next(_serials)}"


def token() -> str:
    """Return the home's random number, 12 hexadecimal digits; it is drawn once.

    Raises:
        BadInput: the home cannot be written, is another user's, or the number is damaged.
    """
    path = private_folder(home() / RUN) / _TOKEN
    with os.fdopen(open_private_file(path), "r+", errors="replace") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        digits = file.read(100)
        if not digits:
            digits = secrets.token_hex(_TOKEN_BYTES)
            file.write(digits)
    if not re.fullmatch("[0-9a-f]{12}", digits):
        raise BadInput(f"{path} must hold 12 hexadecimal digits, found {digits!r:.60}; remove it")
    return digits


def folder() -> Path:
    """Return this process's folder for temporary files, which only its user may enter.

    Raises:
        BadInput: the home cannot be written, or is another user's.
    """
    key = home(), os.getpid()
    if key not in _folders:
        _folders[key] = _claimed(private_folder(home() / RUN))
    return _folders[key]


def keep_lock() -> None:
    """Keep this process's lock when it ends: something of it is left, and somebody has to end it.

    Without the lock nothing proves that it is dead.
    """
    _remembered.add(folder())


def is_living(name: str) -> bool:
    """Tell whether `name` is this home's and its owner lives."""
    lock = _lock_of(name)
    return lock is not None and _holder_of(lock) == "lives"


def is_orphan(name: str) -> bool:
    """Tell whether `name` is this home's and its owner is surely dead.

    A copy of a home knows nothing of the original's owners.
    """
    lock = _lock_of(name)
    return lock is not None and _holder_of(lock) == "dead"


def sweep() -> list[str]:
    """Remove what dead processes left in this home's `run`; return what was removed."""
    removed = []
    for owned in sorted((home() / RUN).glob("*/")):
        lock = owned / _LOCK
        if _holder_of(lock) != "dead":
            continue
        for path in sorted(owned.iterdir()):
            if path != lock:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
                removed.append(f"{RUN}/{owned.name}/{path.name}")
        if time.time() - lock.lstat().st_mtime > _REMEMBERED_S:
            shutil.rmtree(owned)
    return removed


def _claimed(run: Path) -> Path:
    """Make a folder whose lock this process holds until it ends."""
    owned = private_folder(run / secrets.token_hex(_OWNER_BYTES))
    descriptor = open_private_file(owned / _LOCK)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # Only now: without it, the file says nothing of its owner. A copy of it has another number.
    os.write(descriptor, str(os.fstat(descriptor).st_ino).encode())
    atexit.register(_leave, owned, os.getpid())
    return owned


def _leave(owned: Path, pid: int) -> None:
    if os.getpid() == pid and owned not in _remembered:
        shutil.rmtree(owned, ignore_errors=True)


def _lock_of(name: str) -> Path | None:
    """Return the lock of the owner of what has this name; None where it is not this home's."""
    match = _NAME.match(name)
    if match is None or not (home() / RUN / _TOKEN).exists() or match["home"] != token():
        return None
    return home() / RUN / match["owner"] / _LOCK


def _holder_of(lock: Path) -> str:
    """Return "lives" or "dead", or "unknown" where nothing proves either."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return "unknown"
    with os.fdopen(descriptor, errors="replace") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return "lives"
        return "dead" if file.read(100) == str(os.fstat(descriptor).st_ino) else "unknown"


# Folders and files that are this user's alone, also where others may write beside them.


def private_folder(path: Path) -> Path:
    """Make a folder that only this user may enter, or check that one is; return it.

    Raises:
        BadInput: it is a link or no folder, another user's, or open to others; or it cannot be
            made.
    """
    with error_context(f"folder {path} cannot be made", OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise BadInput(f"{path} must be a folder, and no link to one; move it away")
    if status.st_uid != os.geteuid():
        raise BadInput(f"{path} is user {status.st_uid}'s, not yours; move it away")
    if status.st_mode & 0o077:
        raise BadInput(f"others may enter {path}; `chmod 700 {path}` mends that")
    return path


def open_private_file(path: Path) -> int:
    """Return the descriptor of a file of a private folder, to read and write; make it if need be.

    No link is followed and nothing is truncated.

    Raises:
        BadInput: it is a link, or cannot be opened.
    """
    with error_context(f"{path} cannot be opened, so move it away", OSError):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
