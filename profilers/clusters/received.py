"""What machines send: foreign bytes, taken within limits of size, number, kind and time."""

import gzip
import io
import os
import shlex
import subprocess
import tarfile
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from profilers.commands import BoundedFile, read
from profilers.steady.host import CpuTimes, parse_cpu_times
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


# A connection that holds a machine's lock and folder, and asks for its CPU times.


MACHINE = "STEPCAST_MACHINE"
"""Variable of a machine: the folder that is locked, where several share one /dev. That is no user's
and on no network, so users exclude each other and machines with a common home do not."""
WATCH = f"""
mkdir -p "$0" && trap 'rm -rf "$0"' EXIT && exec 9<"${{{MACHINE}:-/dev}}" || exit
flock -n 9 || {{ echo busy; exit; }}
echo watching
while read -r _; do head -n 1 /proc/stat; done
"""
"""Shell: keep a folder and the machine's lock until the connection ends, tell its CPU times."""
_TIMEOUT_S = 60.0
_LINE_BYTES = 4096


class MachineWatch:
    """Such a connection; the machine is let go with it."""

    def __init__(self, connection: Sequence[str], folder: str, name: str) -> None:
        self._name, self._lock = name, threading.Lock()
        command = shlex.join(["sh", "-c", WATCH, folder])
        self._process = subprocess.Popen(
            [*connection, command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,  # Ctrl-C ends it through `close`, after the others
        )
        line = self._told()
        if line != "watching":
            self.close()
            why = "another Stepcast measures there" if line == "busy" else f"told {line!r}"
            raise ProbeFailed(f"{name} cannot be used: {why}")

    def cpu_times(self) -> CpuTimes:
        """Return what the machine's kernel has counted so far."""
        assert self._process.stdin is not None
        with self._lock:
            try:
                self._process.stdin.write("\n")
            except BrokenPipeError:
                raise ProbeFailed(f"{self._name} is gone") from None
            line = self._told()
        try:
            return parse_cpu_times(line)
        except (ValueError, IndexError):
            raise ProbeFailed(f"{self._name} told {line!r:.60} as its processor times") from None

    def close(self) -> None:
        """Let the machine go."""
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _told(self) -> str:
        assert self._process.stdout is not None
        deadline_s, line = time.monotonic() + _TIMEOUT_S, b""
        while not line.endswith(b"\n"):
            try:
                piece = read(self._process.stdout.fileno(), deadline_s)
            except TimeoutError:
                self._process.kill()
                raise ProbeFailed(f"{self._name}: silent for {_TIMEOUT_S:g} s") from None
            line += piece
            if len(line) > _LINE_BYTES:
                self._process.kill()
                raise ProbeFailed(f"{self._name} told {line[:60]!r} … instead of a line")
            if not piece:
                _, stderr = self._process.communicate()
                words = stderr.strip().splitlines() or [f"exit {self._process.returncode}"]
                raise ProbeFailed(f"{self._name} is gone: {words[-1]}")
        return line.decode(errors="replace").strip()
