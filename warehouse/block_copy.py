"""Bring an older copy of a DuckDB file up to date by the blocks that differ; a program of its own.

A block begins with the checksum of what it holds, so the first eight bytes of each block tell
whether it differs: of a file of 5 GB they are 160 kB. The three headers before the blocks are
always copied.

Source: DuckDB 1.5, storage/single_file_block_manager.cpp.
"""

import fcntl
import os
import struct
import sys

HEADERS_BYTES = 3 * 4096
BLOCK_BYTES = 1 << 18
_CHECKSUM_BYTES = 8
_BLOCK_SIZE = slice(40, 48)
"""Of the blocks, in each of the two database headers."""
IN_USE = 3
"""Exit status: somebody has the older copy open, or its blocks are not as long."""


def copy_blocks(source: int, target: int) -> int:
    """Copy the blocks in which two open files differ, and return how many that were."""
    size = os.fstat(source).st_size
    copied = 0
    for at in range(HEADERS_BYTES, size, BLOCK_BYTES):
        if os.pread(source, _CHECKSUM_BYTES, at) != os.pread(target, _CHECKSUM_BYTES, at):
            _write(target, os.pread(source, BLOCK_BYTES, at), at)
            copied += 1
    _write(target, os.pread(source, HEADERS_BYTES, 0), 0)
    os.ftruncate(target, size)
    return copied


def _write(target: int, content: bytes, at: int) -> None:
    while content:
        written = os.pwrite(target, content, at)
        content, at = content[written:], at + written


def _has_such_blocks(file: int) -> bool:
    headers = os.pread(file, HEADERS_BYTES, 0)
    sizes = {struct.unpack("<Q", headers[at:][_BLOCK_SIZE])[0] for at in (4096, 8192)}
    return sizes == {BLOCK_BYTES}


def main(source_path: str, target_path: str) -> int:
    """Bring the target up to date; return the exit status."""
    source = os.open(source_path, os.O_RDONLY)
    target = os.open(target_path, os.O_RDWR)
    try:
        # Granted only where nobody else has the file open: whoever copies or serves it has no lock.
        fcntl.fcntl(target, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return IN_USE
    if not (_has_such_blocks(source) and _has_such_blocks(target)):
        return IN_USE
    copy_blocks(source, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
