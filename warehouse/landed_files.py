"""Files of a landed run: which there may be, under which names, with which checksums."""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path

from warehouse import limits
from warehouse.durable_files import sync
from warehouse.records import BadInput

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def check_name(name: str, what: str) -> None:
    """Refuse what cannot be the name of a folder or file of ours; `what` begins the message.

    Raises:
        BadInput: it has other characters than letters, digits, . _ and -, more than 200 of them,
            or a dot first.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{what} {name[:200]!r} cannot name a folder; use up to 200 letters, digits, . _ and -"
        )


# Without O_NONBLOCK, opening a pipe would wait for whoever writes to it.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def open_plain(path: str | Path, *, folder: int | None = None) -> BufferedReader:
    """Open a file of somebody else for reading: no symbolic link, no pipe, no device.

    Args:
        path: of the file; below `folder` if that is given.
        folder: the descriptor of a folder.

    Raises:
        BadInput: it is none of these.
        OSError: the machine cannot.
    """
    name = os.path.basename(path)
    check_file(name, os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode)
    file = open(os.open(path, _READ, dir_fd=folder), "rb")
    try:
        check_file(name, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def read_plain(path: Path, most_bytes: int) -> bytes:
    """Return what a file of somebody else holds.

    Raises:
        BadInput: as `open_plain`, or it is longer than that.
        OSError: the machine cannot read it.
    """
    with open_plain(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise BadInput(f"{path.name} is longer than {most_bytes:,} bytes")
    return content


def check_plain(folder: Path) -> None:
    """Refuse a folder of a run that is not made of plain files, beside folders within it.

    Raises:
        BadInput: it is gone, is a symbolic link, or holds one or a thing that is no file.
    """
    try:
        check_folder(folder.name, folder.lstat().st_mode)
        with os.scandir(folder) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if not stat.S_ISDIR(mode) or entry.name.endswith(".parquet"):
                    check_file(entry.name, mode)
    except FileNotFoundError as error:
        raise BadInput(f"{folder.name} is gone from {folder.parent}") from error


def check_file(name: str, mode: int) -> None:
    """Refuse what is no plain file, by the mode that `lstat` tells.

    Raises:
        BadInput: it is a link, a folder, a pipe or a device.
    """
    if stat.S_ISLNK(mode):
        raise BadInput(f"{name} is a symbolic link; put the file itself in its place")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{name} is no file; remove it")


def check_folder(name: str, mode: int) -> None:
    """Refuse what is no folder, by the mode that `lstat` tells.

    Raises:
        BadInput: it is a link or a file.
    """
    if stat.S_ISLNK(mode):
        raise BadInput(f"{name} is a symbolic link; put the folder itself in its place")
    if not stat.S_ISDIR(mode):
        raise BadInput(f"{name} is no folder")


# Checksums of a landed run, in the format of `sha256sum`, written when it lands.


SUMS = "SHA256SUMS"


def seal(folder: Path, *, durable: bool = True) -> None:
    """Write the checksums of the folder's Parquet files; they are on disk then if `durable`."""
    (folder / SUMS).write_text(_listed(_sums(folder)))
    if durable:
        sync(folder / SUMS)


def verify(folder: Path) -> str:
    """Check that the Parquet files are those that landed; return the SHA-256 of their checksums.

    That is the SHA-256 of the file that `seal` writes. A folder without checksums was made by
    other means and is taken as it is.

    Raises:
        BadInput: a file is missing, is another one, or came later.
    """
    digests = _sums(folder)
    expected = _expected(folder)
    if expected is not None:
        if missing := sorted(set(expected) - set(digests)):
            raise BadInput(f"{missing[0]} is missing, which {SUMS} lists")
        if extra := sorted(set(digests) - set(expected)):
            raise BadInput(f"{extra[0]} came after the run had landed: {SUMS} does not list it")
        for name, digest in digests.items():
            if expected[name] != digest:
                raise BadInput(
                    f"{name} is not the file that landed: its SHA-256 is not the one in {SUMS}; "
                    f"copy the run again, or run `sha256sum *.parquet > {SUMS}` if the change is "
                    "meant"
                )
    return hashlib.sha256(_listed(digests).encode()).hexdigest()


def _expected(folder: Path) -> dict[str, str] | None:
    try:
        text = read_plain(folder / SUMS, limits.DOCUMENT_BYTES)
    except FileNotFoundError:
        return None
    lines = text.decode(errors="replace").split("\n")
    return dict(line.split("  ", 1)[::-1] for line in lines if "  " in line)


def _sums(folder: Path) -> dict[str, str]:
    return {file.name: _sum(file) for file in sorted(folder.glob("*.parquet"))}


def _listed(sums: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items())


def _sum(file: Path) -> str:
    with open_plain(file) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
