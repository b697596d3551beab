"""Bytes on their way from a pipe to one of another machine, which may be slow or late.

Nodes get this file before the rest of the project, so it imports nothing of it.
"""

import os
import threading
from contextlib import suppress

WINDOW_BYTES = 4 << 20
"""So much may be unconfirmed before a pipe is not read any more."""
PIECE_BYTES = 1 << 16
Stream = tuple[int, bytes, bool]
"""Where unconfirmed bytes begin, the bytes, and whether nothing comes after them."""


class Outgoing:
    """What comes out of a pipe, until the other side has it."""

    def __init__(self, pipe: int, changed: threading.Event) -> None:
        self.first, self.ended = 0, False
        self._pipe, self._changed = pipe, changed
        self._bytes, self._room = bytearray(), threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def state(self) -> Stream:
        """What is not confirmed."""
        with self._room:
            return self.first, bytes(self._bytes), self.ended

    def confirmed(self, end: int) -> None:
        """Forget what the other side has.

        Raises:
            ValueError: it has what was not said.
        """
        with self._room:
            if not 0 <= end <= self.first + len(self._bytes):
                raise ValueError("what was never said is confirmed")
            if end > self.first:
                del self._bytes[: end - self.first]
                self.first = end
                self._room.notify_all()

    def join(self, within_s: float) -> None:
        """Wait until the pipe has ended, or that takes too long."""
        self._reader.join(within_s)

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._pipe, PIECE_BYTES)
            except OSError:
                piece = b""
            with self._room:
                self._room.wait_for(lambda: len(self._bytes) < WINDOW_BYTES)
                self._bytes += piece
                self.ended = not piece
            self._changed.set()
            if not piece:
                return


class Incoming:
    """What the other side says, on its way into a pipe that is closed behind it."""

    def __init__(self, pipe: int) -> None:
        self.taken, self.is_over = 0, False
        self._pipe, self._ended = pipe, False
        self._bytes, self._more = bytearray(), threading.Condition()
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    def give(self, first: int, piece: bytes, ended: bool) -> bool:
        """Take what is new of what the other side says, unless the pipe is behind; tell whether.

        Raises:
            ValueError: something before it is missing.
        """
        with self._more:
            known = self.taken - first
            if known < 0:
                raise ValueError("something is missing")
            if len(self._bytes) >= WINDOW_BYTES:
                return False
            if not self.is_over:
                self._bytes += piece[known:]
                self.taken += len(piece[known:])
                self.is_over = ended
                self._more.notify_all()
            return True

    def close(self, within_s: float = 0.0) -> None:
        """Close the pipe once all is written that was taken, or that takes too long."""
        with self._more:
            self._ended = True
            self._more.notify_all()
        self._writer.join(within_s)

    def _write(self) -> None:
        with os.fdopen(self._pipe, "wb", buffering=0) as pipe:
            while piece := self._next():
                # Where nobody reads any more, the rest is dropped.
                with suppress(OSError):
                    while piece:
                        piece = piece[pipe.write(piece) or 0 :]

    def _next(self) -> bytes:
        """Return what is to be written, as soon as there is something; nothing at the end."""
        with self._more:
            self._more.wait_for(lambda: self._bytes or self.is_over or self._ended)
            piece = bytes(self._bytes)
            self._bytes.clear()
            return piece
