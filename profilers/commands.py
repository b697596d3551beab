"""Other programs and what they send: argument lists, and bounds on time and bytes always."""

import io
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from warehouse import limits
from warehouse.records import MissingTool, ProbeFailed

_PIECE_BYTES, _LAST_BYTES = 1 << 16, 10_000


def run(argv: Sequence[str], *, timeout_s: float = 20) -> str:
    """Run a program to its end and return its stdout.

    Raises:
        MissingTool: it is not installed.
        ProbeFailed: it failed or did not end within `timeout_s`.
    """
    try:
        code, output, errors = run_with_input(argv, timeout_s=timeout_s)
    except FileNotFoundError:
        raise MissingTool(f"{argv[0]} is not installed; `stepcast doctor` says how") from None
    except ProbeFailed as error:
        raise ProbeFailed(f"`{' '.join(argv)}`: {error}") from None
    except subprocess.TimeoutExpired:
        raise ProbeFailed(f"`{' '.join(argv)}` did not end within {timeout_s:g} s") from None
    text = output.decode(errors="replace")
    if code:
        message = (errors.decode(errors="replace").strip() or text.strip())[-500:]
        raise ProbeFailed(f"`{' '.join(argv)}` exited with {code}: {message}")
    return text


def run_with_input(
    argv: Sequence[str], given: bytes = b"", *, timeout_s: float
) -> tuple[int, bytes, bytes]:
    """Run a program that reads `given`; return its exit code, stdout and the end of its stderr.

    Raises:
        ProbeFailed: it told more than `limits.SENT_BYTES`.
        subprocess.TimeoutExpired: it did not end within `timeout_s`.
        FileNotFoundError: it is not installed.
    """
    deadline_s = time.monotonic() + timeout_s
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        with subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr) as program:
            assert program.stdout is not None
            try:
                output = read_all(program.stdout.fileno(), deadline_s, limits.SENT_BYTES)
                program.wait(timeout=max(deadline_s - time.monotonic(), 0))
            except (TimeoutError, subprocess.TimeoutExpired):
                program.kill()
                raise subprocess.TimeoutExpired(argv, timeout_s) from None
            except BaseException:
                program.kill()
                raise
        stderr.seek(max(stderr.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
        return program.returncode, output, stderr.read()


def read_all(pipe: int, deadline_s: float, most_bytes: int) -> bytes:
    """Return all that comes through a pipe until a moment of monotonic time.

    Raises:
        ProbeFailed: that is more than `most_bytes`.
        TimeoutError: it has not ended by then.
    """
    pieces, size = list[bytes](), 0
    while piece := read(pipe, deadline_s):
        size += len(piece)
        if size > most_bytes:
            raise ProbeFailed(f"more than {most_bytes:,} bytes in one answer")
        pieces.append(piece)
    return b"".join(pieces)


def read(pipe: int, deadline_s: float, most_bytes: int = _PIECE_BYTES) -> bytes:
    """Return what a pipe has next, so much at most; an empty piece at its end.

    Raises:
        TimeoutError: nothing came until that moment of monotonic time.
    """
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    left_s = deadline_s - time.monotonic()
    if left_s <= 0 or not waiting.poll(left_s * 1000):
        raise TimeoutError
    return os.read(pipe, most_bytes)


class BoundedFile(io.RawIOBase):
    """Bytes that somebody else sends or has written.

    Args:
        readinto: reads some of them into a buffer, and returns how many; 0: there are no more.
        most_bytes: that may be there.
        refused: is raised where there are more.
    """

    def __init__(self, readinto: Callable[[Any], int], most_bytes: int, refused: Exception) -> None:
        self._readinto, self._left, self._refused = readinto, most_bytes, refused

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # At most one read: what is whole comes before the error that a cut-off gzip ends in.
        count = self._readinto(buffer)
        self._left -= count
        if self._left < 0:
            raise self._refused
        return count


def missing_tools(*tools: str) -> list[str]:
    """Return those of `tools` that are not on the PATH."""
    return [tool for tool in tools if shutil.which(tool) is None]
