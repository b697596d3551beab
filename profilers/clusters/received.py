"""What nodes send: foreign bytes, taken within limits of size, number, kind and time."""

import gzip
import io
import os
import tarfile
import time
import zlib
from pathlib import Path
from typing import IO

from profilers.commands import BoundedFile, read
from warehouse import limits
from warehouse.fields import checked_name
from warehouse.records import BadInput, ProbeFailed

_PIECE_BYTES = 1 << 16
_DEPTH = 16
"""Of folders inside each other; more would not fit a header anyway."""


def unpack(pipe: int, folder: Path, timeout_s: float = limits.SENT_S) -> None:
    """Unpack the compressed tar archive that comes through a pipe, to its end.

    It holds files and folders with plain names and nothing else: no links, devices, or headers that
    hold a name or a size elsewhere. Files here of the same name are replaced.

    Raises:
        ProbeFailed: it is something else, larger or of more files than `limits` has it, takes
            longer, or ends early.
    """
    deadline_s = time.monotonic() + timeout_s
    too_long = ProbeFailed(f"more than {limits.UNPACKED_BYTES:,} bytes in all")

    def receive(buffer: memoryview) -> int:
        try:
            piece = read(pipe, deadline_s, len(buffer))
        except TimeoutError:
            raise ProbeFailed("nothing more came in time") from None
        buffer[: len(piece)] = piece
        return len(piece)

    packed = io.BufferedReader(BoundedFile(receive, limits.UNPACKED_BYTES, too_long))
    unpacked = BoundedFile(gzip.GzipFile(fileobj=packed).readinto, limits.UNPACKED_BYTES, too_long)
    try:
        _unpack(io.BufferedReader(unpacked), folder)
    except EOFError:
        raise ProbeFailed("it ended early") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ProbeFailed(f"not compressed as it should be: {error}") from None
    except tarfile.TarError as error:
        raise ProbeFailed(f"no tar archive: {error}") from None


def _unpack(stream: IO[bytes], folder: Path) -> None:
    seen = set[str]()
    while any(block := _exactly(stream, tarfile.BLOCKSIZE)):
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        is_folder = member.isdir() and member.size == 0
        if not is_folder and member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise ProbeFailed(f"{member.name!r:.120} is neither a file nor a folder")
        if member.name in seen or len(seen) >= limits.SENT_FILES:
            raise ProbeFailed(f"{member.name!r:.120} comes twice, or beyond {limits.SENT_FILES}")
        seen.add(member.name)
        path = folder.joinpath(*_place(member.name))
        try:
            if is_folder:
                path.mkdir(exist_ok=True)
            else:
                _write(stream, member.size, path)
        except gzip.BadGzipFile:
            raise
        except OSError as error:
            what = f"{member.name!r:.120} cannot be written here"
            raise ProbeFailed(f"{what}: {error.strerror}") from None
    while stream.read(_PIECE_BYTES):  # the sender goes on once all has been taken
        pass


def _place(name: str) -> list[str]:
    """Return the parts of a path below the folder; none for the folder itself."""
    parts = name.removeprefix("./").rstrip("/").split("/")
    if parts in ([""], ["."]):
        return []
    if len(parts) > _DEPTH:
        raise ProbeFailed(f"{name!r:.120} is more than {_DEPTH} folders deep")
    try:
        return [checked_name(part, "file") for part in parts]
    except BadInput as error:
        raise ProbeFailed(str(error)) from None


def _write(stream: IO[bytes], size: int, path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        for start in range(0, size, _PIECE_BYTES):
            file.write(_exactly(stream, min(size - start, _PIECE_BYTES)))
    _exactly(stream, -size % tarfile.BLOCKSIZE)


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
