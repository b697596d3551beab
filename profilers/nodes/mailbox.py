"""The pipes of a program on a node, and of its controller, joined by two objects of a bucket.

Each side writes one object and reads the other's. An object holds all that its writer has said and
the other has not confirmed. So writing it twice changes nothing, and nothing is lost. Both are
reached by URLs that are signed for a while, and renewed.

Nodes get this file before the rest of the project, so it imports nothing of it.
"""

import json
import os
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

WINDOW_BYTES = 4 << 20
"""So much may be unconfirmed before a pipe is not read any more."""
PIECE_BYTES = 1 << 16
Stream = tuple[int, bytes, bool]
"""Where unconfirmed bytes begin, the bytes, and whether nothing comes after them."""
HEAD_BYTES = 1 << 18
MOST_BYTES = HEAD_BYTES + 2 * (WINDOW_BYTES + PIECE_BYTES)
BEATS = 6
"""How often a side that has nothing to say does so within the time that its silence may last."""
FIRST_PAUSE_S, MOST_PAUSE_S = 0.05, 1.0
_HTTP_S = 20.0
Head = dict[str, Any]


def pack_object(head: Head, streams: dict[str, Stream]) -> bytes:
    """Return an object: a line of JSON, and the bytes of each stream behind it."""
    spans = {name: [first, len(piece), ended] for name, (first, piece, ended) in streams.items()}
    line = json.dumps({**head, "streams": spans}).encode() + b"\n"
    return line + b"".join(piece for _, piece, _ in streams.values())


def unpack_object(content: bytes) -> tuple[Head, dict[str, Stream]]:
    """Return the head of an object, and its streams.

    Raises:
        ValueError: it is none.
    """
    line, separator, rest = content.partition(b"\n")
    if not separator or len(line) > HEAD_BYTES:
        raise ValueError("no object of this kind")
    try:
        head = json.loads(line)
        listed = list(head["streams"].items())
        streams, at = dict[str, Stream](), 0
        for name, (first, size, ended) in listed:
            if not (type(first) is type(size) is int and first >= 0 <= size <= len(rest) - at):
                raise ValueError("no stream")
            streams[name] = first, rest[at : at + size], ended is True
            at += size
    except (RecursionError, KeyError, TypeError, AttributeError, ValueError):
        raise ValueError("no object of this kind") from None
    return head, streams


class ObjectGone(Exception):
    """The object is not there any more."""


class Exchange:
    """The objects of one program, as one side sees them.

    Attributes:
        urls: of `theirs` to read and `ours` to write; the other side may renew them.
        said: what our object says beside its streams.
        heard: what theirs says beside its streams, empty before it says anything.
        heard_at_s: when it last said something new, by a clock that nobody sets.
    """

    def __init__(
        self,
        urls: dict[str, str],
        silence_s: float,
        outgoing: dict[str, int],
        incoming: dict[str, int],
    ) -> None:
        self.urls = urls
        self.said: Head = {}
        self.heard: Head = {}
        self.heard_at_s = time.monotonic()
        self.silence_s, self.changed = silence_s, threading.Event()
        self.outgoing = {name: Outgoing(pipe, self.changed) for name, pipe in outgoing.items()}
        self.incoming = {name: Incoming(pipe) for name, pipe in incoming.items()}
        self._beat, self._beat_at_s, self._last, self._tag = 0, 0.0, "", ""
        self._pause_s = FIRST_PAUSE_S

    @property
    def is_silent(self) -> bool:
        """Whether the other side has said nothing for too long."""
        return time.monotonic() > self.heard_at_s + self.silence_s

    def turn(self) -> None:
        """Read and write once; wait before that, the longer the less happened.

        Raises:
            Gone: the other side has removed its object.
            ValueError: it says what nobody understands.
            OSError: it cannot be reached now (`urllib.error.HTTPError`: it refuses).
        """
        if self.changed.wait(self._pause_s):
            self.changed.clear()
            time.sleep(FIRST_PAUSE_S)  # what is written line by line goes together
        self._pause_s = min(1.5 * self._pause_s, MOST_PAUSE_S)
        if self.fetch() | self.post():
            self._pause_s = FIRST_PAUSE_S

    def fetch(self) -> bool:
        """Read their object; tell whether it says something new."""
        request = urllib.request.Request(self.urls["theirs"])
        if self._tag:
            request.add_header("If-None-Match", self._tag)
        try:
            with _opener.open(request, timeout=_HTTP_S) as answer:
                content, tag = answer.read(MOST_BYTES + 1), answer.headers.get("ETag", "")
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304:
                    return False
                if error.code == 404:
                    raise ObjectGone from None
                raise
        if len(content) > MOST_BYTES:
            raise ValueError("too much at once")
        head, streams = unpack_object(content)
        is_new = bool(head.get("beat") != self.heard.get("beat"))
        if is_new:
            self.heard, self.heard_at_s = head, time.monotonic()
        had_room = [
            stream.give(*streams[name]) for name, stream in self.incoming.items() if name in streams
        ]
        # What a pipe had no room for is read again.
        self._tag = tag if all(had_room) else ""
        taken = head.get("taken")
        for name, end in taken.items() if isinstance(taken, dict) else ():
            if name in self.outgoing and type(end) is int:
                self.outgoing[name].confirmed(end)
        return is_new

    def post(self) -> bool:
        """Write our object if it says something new, or it is time for a word; tell whether."""
        head = {
            **self.said,
            "taken": {name: stream.taken for name, stream in self.incoming.items()},
        }
        streams = {name: stream.state for name, stream in self.outgoing.items()}
        ends = {name: (first + len(piece), over) for name, (first, piece, over) in streams.items()}
        # What is confirmed is no news: the other side may have removed the objects after it.
        content, now_s = repr((head, ends)), time.monotonic()
        is_new = content != self._last
        if not is_new and now_s < self._beat_at_s + self.silence_s / BEATS:
            return False
        self._beat += 1
        self.put(pack_object({**head, "beat": self._beat}, streams))
        self._last, self._beat_at_s = content, now_s
        return is_new

    def put(self, content: bytes) -> None:
        """Write our object."""
        send(self.urls["ours"], "PUT", content)


def send(url: str, method: str, content: bytes | None = None) -> None:
    """Write or delete what a URL is signed for."""
    request = urllib.request.Request(url, content, method=method)
    request.add_header("Content-Type", "application/octet-stream")
    with _opener.open(request, timeout=_HTTP_S) as answer:
        answer.read(HEAD_BYTES)


_opener = urllib.request.build_opener()


# Bytes on their way from a pipe to one of the other machine, which may be slow or late.


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
