"""Two sides of a mailbox whose objects are bytes in memory: what is lost is said again."""

import io
import os
import random
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from email.message import Message
from urllib.request import Request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.nodes import errand, mailbox
from profilers.nodes.mailbox import (
    PIECE_BYTES,
    WINDOW_BYTES,
    Exchange,
    Incoming,
    ObjectGone,
    Outgoing,
    pack_object,
    unpack_object,
)


class Bucket:
    """Objects by URL; some questions fail."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self.chance, self.calm = chance, False
        self._lock = threading.Lock()

    def open(self, request: Request, timeout: float) -> "Answer":
        url, method = request.full_url, request.get_method()
        with self._lock:
            if self.chance is not None and not self.calm and self.chance.random() < 0.3:
                raise urllib.error.HTTPError(url, 503, "Slow Down", Message(), io.BytesIO())
            if method == "PUT":
                assert isinstance(request.data, bytes)
                self.objects[url] = request.data
                return Answer(b"", "")
            if method == "DELETE":
                self.objects.pop(url, None)
                return Answer(b"", "")
            if url not in self.objects:
                raise urllib.error.HTTPError(url, 404, "Not Found", Message(), io.BytesIO())
            content = self.objects[url]
            tag = str(hash(content))
            if request.get_header("If-none-match") == tag:
                raise urllib.error.HTTPError(url, 304, "Not Modified", Message(), io.BytesIO())
            return Answer(content, tag)


class Answer(io.BytesIO):
    """An answer with a tag."""

    def __init__(self, content: bytes, tag: str) -> None:
        super().__init__(content)
        self.headers = {"ETag": tag}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    fake = Bucket()
    monkeypatch.setattr(mailbox, "_opener", fake)
    monkeypatch.setattr(mailbox, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(mailbox, "MOST_PAUSE_S", 0.01)
    return fake


HERE = {"theirs": "http://bucket/out", "ours": "http://bucket/in"}
THERE = {"theirs": "http://bucket/in", "ours": "http://bucket/out"}


@given(st.binary(max_size=200))
def test_what_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="no object"):
        unpack_object(content)


@pytest.mark.parametrize(
    "streams",
    ["[]", "1", '{"a": 1}', '{"a": [0, 9, true]}', '{"a": [-1, 0, true]}', '{"a": [0, true, 1]}'],
)
def test_streams_that_cannot_be_are_refused(streams: str) -> None:
    with pytest.raises(ValueError, match="no object"):
        unpack_object(f'{{"streams": {streams}}}\n'.encode())


def test_what_was_never_said_cannot_be_confirmed() -> None:
    reading, writing = os.pipe()
    outgoing = Outgoing(reading, threading.Event())
    os.close(writing)
    with pytest.raises(ValueError, match="never said"):
        outgoing.confirmed(1)


def test_what_is_missing_is_noticed() -> None:
    reading, writing = os.pipe()
    incoming = Incoming(writing)
    assert incoming.give(0, b"ab", False)
    assert incoming.give(1, b"bc", False)  # said again
    with pytest.raises(ValueError, match="missing"):
        incoming.give(4, b"e", True)
    assert incoming.give(3, b"", True)
    with os.fdopen(reading, "rb") as read:
        assert read.read() == b"abc"


def test_a_pipe_that_nobody_reads_is_not_filled_without_bound() -> None:
    reading, writing = os.pipe()
    incoming = Incoming(writing)
    piece = bytes(WINDOW_BYTES)
    given_up = [incoming.give(incoming.taken, piece, False) for _ in range(4)]
    assert given_up[-1] is False
    assert incoming.taken <= 3 * WINDOW_BYTES
    os.close(reading)


def test_a_program_that_nobody_confirms_is_held_up(bucket: Bucket) -> None:
    reading, writing = os.pipe()
    outgoing = Outgoing(reading, threading.Event())
    os.set_blocking(writing, False)
    written = 0
    deadline_s = time.monotonic() + 10
    while written < WINDOW_BYTES and time.monotonic() < deadline_s:
        try:
            written += os.write(writing, bytes(PIECE_BYTES))
        except BlockingIOError:
            time.sleep(0.001)
    _, held, ended = outgoing.state
    assert len(held) <= WINDOW_BYTES + PIECE_BYTES
    assert not ended
    os.close(writing)


@pytest.mark.parametrize("seed", range(5))
def test_all_bytes_arrive_once_whatever_is_refused(
    seed: int, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.chance = random.Random(seed)
    content = random.Random(seed).randbytes(WINDOW_BYTES + 300_000)
    bucket.objects = {HERE["theirs"]: pack_object({"beat": 0}, {})}
    pipes = [os.pipe() for _ in range(2)]
    (said_from, said_to), (heard_from, heard_to) = pipes
    here = Exchange(HERE, 60.0, {"stdin": said_from}, {})
    there = Exchange(THERE, 60.0, {}, {"stdin": heard_to})
    with os.fdopen(said_to, "wb") as say, os.fdopen(heard_from, "rb") as hear:
        heard: list[bytes] = []

        def speak() -> None:
            say.write(content)
            say.close()

        writer = threading.Thread(target=speak)
        reader = threading.Thread(target=lambda: heard.append(hear.read()))
        for thread in (writer, reader):
            thread.start()
        deadline_s = time.monotonic() + 30
        while not there.incoming["stdin"].is_over and time.monotonic() < deadline_s:
            for side in (here, there):
                try:
                    side.turn()
                except (OSError, ObjectGone):
                    continue
        writer.join(10)
        reader.join(10)
    assert heard == [content]


def served(bucket: Bucket, command: str, life_s: float = 60.0) -> Iterator[dict[str, object]]:
    """Run an errand, and yield what its object says, again and again."""
    bucket.objects[HERE["ours"]] = pack_object(
        {"beat": 1, "command": command}, {"stdin": (0, b"", True)}
    )
    bucket.objects[HERE["theirs"]] = pack_object({"beat": 0}, {})
    run = threading.Thread(target=errand.serve, args=(errand.order(THERE, life_s, 60.0),))
    run.start()
    deadline_s = time.monotonic() + 30
    while time.monotonic() < deadline_s:
        head, streams = unpack_object(bucket.objects[HERE["theirs"]])
        yield {**head, "out": streams.get("stdout", (0, b"", False))[1]}
        if not run.is_alive():
            return
        time.sleep(0.01)
    raise AssertionError("the errand does not end")


def test_an_errand_tells_what_its_command_writes_and_how_it_ends(bucket: Bucket) -> None:
    for state in served(bucket, "echo word; exit 5"):
        if state.get("code") is not None:
            bucket.objects[HERE["ours"]] = pack_object({"beat": 2, "stop": True}, {})
    assert (state["code"], state["out"]) == (5, b"word\n")


@pytest.mark.parametrize("why", ["stop", "gone", "life"])
def test_an_errand_ends_its_command(why: str, bucket: Bucket) -> None:
    life_s = 0.3 if why == "life" else 60.0
    for state in served(bucket, "echo up; sleep 1000 & exec sleep 1000", life_s):
        if state["out"] == b"up\n" and why == "stop":
            bucket.objects[HERE["ours"]] = pack_object({"beat": 2, "stop": True}, {})
        if state["out"] == b"up\n" and why == "gone":
            bucket.objects.pop(HERE["ours"], None)
    assert state["code"] == -9


def test_nothing_starts_for_a_controller_that_has_given_up(bucket: Bucket) -> None:
    bucket.objects[HERE["ours"]] = pack_object({"beat": "x", "stop": True}, {})
    errand.serve(errand.order(THERE, 60.0, 60.0))
    assert HERE["theirs"] not in bucket.objects
    del bucket.objects[HERE["ours"]]
    with pytest.raises(ObjectGone):
        errand.serve(errand.order(THERE, 60.0, 60.0))


def test_nodes_need_nothing_else_of_the_project() -> None:
    code = (
        "import sys, profilers.nodes.errand\n"
        "print(*sorted(one for one in sys.modules if one.startswith(('profilers', 'warehouse'))))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needed = ["errand", "mailbox"]
    assert ran.stdout.split() == [
        "profilers",
        "profilers.nodes",
        *(f"profilers.nodes.{x}" for x in needed),
    ]
