"""What nodes send: foreign bytes, taken within limits of size, number, kind and time."""

import os
import tarfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

from profilers.commands import read
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
    stream, seen = _BoundedStream(pipe, timeout_s), set[str]()
    while True:
        block = stream.exactly(tarfile.BLOCKSIZE)
        if not any(block):
            break
        try:
            member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.TarError as error:
            raise ProbeFailed(f"no tar archive: {error}") from None
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
        except OSError as error:
            what = f"{member.name!r:.120} cannot be written here"
            raise ProbeFailed(f"{what}: {error.strerror}") from None
    stream.finish()


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


def _write(stream: "_BoundedStream", size: int, path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        for piece in stream.pieces(size):
            file.write(piece)
    stream.exactly(-size % tarfile.BLOCKSIZE)


class _BoundedStream:
    """Bytes of a pipe, decompressed; never more than a piece of them is in memory."""

    def __init__(self, pipe: int, timeout_s: float) -> None:
        self._pipe, self._deadline_s = pipe, time.monotonic() + timeout_s
        self._inflate, self._ahead = zlib.decompressobj(wbits=31), b""
        self._left_bytes = limits.UNPACKED_BYTES

    def exactly(self, size: int) -> bytes:
        """Return the next bytes."""
        return b"".join(self.pieces(size))

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes, piece by piece.

        Raises:
            ProbeFailed: there are fewer, or a limit is passed.
        """
        if not 0 <= size <= self._left_bytes:
            raise ProbeFailed(f"more than {limits.UNPACKED_BYTES:,} bytes in all")
        self._left_bytes -= size
        while size:
            self._ahead = self._ahead or self._decompressed()
            if not self._ahead:
                raise ProbeFailed("it ended early")
            piece, self._ahead = self._ahead[:size], self._ahead[size:]
            size -= len(piece)
            yield piece

    def finish(self) -> None:
        """Take what is left: the sender goes on once it has been taken."""
        while piece := self._ahead or self._decompressed():
            self._ahead = b""
            self._left_bytes -= len(piece)
            if self._left_bytes < 0:
                raise ProbeFailed(f"more than {limits.UNPACKED_BYTES:,} bytes in all")

    def _decompressed(self) -> bytes:
        """Return what comes next, an empty piece at the end."""
        while packed := self._inflate.unconsumed_tail or self._read():
            if self._inflate.eof:
                continue
            try:
                piece = self._inflate.decompress(packed, _PIECE_BYTES)
            except zlib.error as error:
                raise ProbeFailed(f"not compressed as it should be: {error}") from None
            if piece:
                return piece
        return b""

    def _read(self) -> bytes:
        try:
            return read(self._pipe, self._deadline_s)
        except TimeoutError:
            raise ProbeFailed("nothing more came in time") from None
