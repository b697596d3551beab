"""Files of a landed run: which there may be, under which names, with which checksums."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

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


@contextmanager
def explain_damage(file: Path) -> Iterator[None]:
    """Tell what a reader makes of a damaged file of a set as the user's matter.

    Raises:
        BadInput: the file is damaged.
    """
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, ValueError, RecursionError) as error:
        # What the disk says has a number; what pyarrow makes of wrong bytes has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        message = " ".join(str(error).split())
        raise BadInput(f"set {file.parent}: {file.name} is damaged: {message}") from error


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
        with (folder / SUMS).open("rb") as file:
            text = file.read(limits.DOCUMENT_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(text) > limits.DOCUMENT_BYTES:
        raise BadInput(f"{SUMS} is longer than {limits.DOCUMENT_BYTES:,} bytes")
    lines = text.decode(errors="replace").split("\n")
    return dict(line.split("  ", 1)[::-1] for line in lines if "  " in line)


def _sums(folder: Path) -> dict[str, str]:
    return {file.name: _sum(file) for file in sorted(folder.glob("*.parquet"))}


def _listed(sums: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sums.items())


def _sum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
