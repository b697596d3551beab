"""Folders and files that are this user's alone, also where others may write beside them."""

import os
import stat
from pathlib import Path

from warehouse.records import BadInput


def folder(path: Path) -> Path:
    """Make a folder that only this user may enter, or check that one is; return it.

    Raises:
        BadInput: it is a link or no folder, another user's, or open to others; or it cannot be
            made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            _check(path, path.lstat())
    except OSError as error:
        raise BadInput(f"folder {path} cannot be made: {error.strerror}") from None
    return path


def opened(path: Path) -> int:
    """Return the descriptor of a file of a private folder, to read and write; make it if need be.

    No link is followed and nothing is truncated.

    Raises:
        BadInput: it is a link, or cannot be opened.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadInput(f"{path} cannot be opened: {error.strerror}; move it away") from None


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise BadInput(f"{path} must be a folder, and no link to one; move it away")
    if found.st_uid != os.geteuid():
        raise BadInput(f"{path} is user {found.st_uid}'s, not yours; move it away")
    if found.st_mode & 0o077:
        raise BadInput(f"others may enter {path}; `chmod 700 {path}` mends that")
