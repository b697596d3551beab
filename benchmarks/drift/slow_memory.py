"""Makes the memory of one process slower, and nothing else; it ends with that process.

Started as `python -m benchmarks.drift.slow_memory PID BYTES_PER_S`. As a kernel does that moves
cold pages to slower memory, it marks so much of the process's memory as unused each second
(process_madvise(2), MADV_COLD). The next access to each such page has to find it through the page
tables again, on the process's own processor time: half a microsecond or so. The process keeps its
share of the processors; another core marks the pages.
"""

import ctypes
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_PROCESS_MADVISE, _MADV_COLD = 440, 20
"""Of all Linux architectures."""
_CHUNK_BYTES = 1 << 20
_TICK_S = 0.02


class _Range(ctypes.Structure):
    """A struct iovec."""

    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


def written(maps: str) -> Iterator[tuple[int, int]]:
    """Yield start and length of a process's own memory that it may write, of /proc/PID/maps."""
    for line in maps.splitlines():
        addresses, permissions, _, _, inode, *name = line.split()
        if "w" in permissions and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(one, 16) for one in addresses.split("-"))
            yield start, end - start


def chunks(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield ranges in pieces."""
    for start, length in ranges:
        for offset in range(0, length, _CHUNK_BYTES):
            yield start + offset, min(_CHUNK_BYTES, length - offset)


class Process:
    """A process whose pages can be marked."""

    def __init__(self, pid: int) -> None:
        self._maps, self._pidfd = Path(f"/proc/{pid}/maps"), os.pidfd_open(pid)
        self._kernel = ctypes.CDLL(None, use_errno=True)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield what it has, again and again: it may grow. End with it."""
        while ranges := list(written(self._maps.read_text())):
            yield from chunks(iter(ranges))

    def mark(self, start: int, length: int) -> None:
        """Mark a piece; one that is gone meanwhile is none.

        Raises:
            ProcessLookupError: the process has ended.
            OSError: the kernel refuses.
        """
        piece = (_Range * 1)(_Range(start, length))
        arguments = (self._pidfd, piece, ctypes.c_size_t(1), _MADV_COLD, 0)
        if self._kernel.syscall(_PROCESS_MADVISE, *arguments) < 0:
            number = ctypes.get_errno()
            if number not in (errno.ENOMEM, errno.EINTR):
                raise OSError(number, f"process_madvise: {os.strerror(number)}")


def main() -> None:
    """Mark pages until the process ends."""
    process, rate_Bps = Process(int(sys.argv[1])), float(sys.argv[2])
    due_bytes, then_s = 0.0, time.monotonic()
    try:
        for start, length in process.pieces():
            while due_bytes <= 0:
                time.sleep(_TICK_S)
                now_s = time.monotonic()
                due_bytes += rate_Bps * (now_s - then_s)
                then_s = now_s
            process.mark(start, length)
            due_bytes -= length
    except (ProcessLookupError, FileNotFoundError):
        return


if __name__ == "__main__":
    main()
