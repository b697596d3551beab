"""A process whose children are two sites and a loader, which are killed; asked by lines of JSON.

Each line is a list of `[work, home, place, run id, end]`: one child for each, all at once. `work`
is `site`, which lands a run and pushes, or `loader`, which receives and loads. `end` is
`["time", s]`: killed after so many seconds; `["event", n]`: killed as it is about to do the n-th
thing to a file, a folder or a connection; or null: left to end. Answers with how long it took, how
each ended (`killed`, `done`, `error`) and how many such things each did. The children are forked
before any library has started a thread, so that hundreds need one start of Python.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import boto3

from tests.warehouse.conftest import Maker
from tests.warehouse.crashing import ended
from warehouse import bucket
from warehouse.landing import run_folders
from warehouse.records import StepcastError
from warehouse.sites import prefix_of, push, receive
from warehouse.warehouse import Warehouse

EVENTS = {
    "http.client.send",
    "open",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "shutil.rmtree",
    "socket.connect",
}
"""Audit events of Python before which a process may be killed."""
ROWS = 2
"""Timing rows of a run."""


def work(kind: str, home: Path, place: str, run_id: str) -> None:
    """Do what a site does after it has measured, or what a loader does."""
    prefix = prefix_of(place)
    if kind == "site":
        make = Maker(home)
        if all(folder.name != run_id for folder in run_folders(home / "landing")):
            make.profile(run_id, make.scenario())
        push(home / "landing", prefix)
    else:
        receive(prefix, home / "landing")
        Warehouse(home).load()


def count_events(killed_at: int | None) -> list[int]:
    """Count what this process is about to do; kill it at that number."""
    counted = [0]

    def heard(event: str, _: tuple[Any, ...]) -> None:
        if event in EVENTS:
            counted[0] += 1
            if counted[0] == killed_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(heard)
    return counted


def child(kind: str, home: str, place: str, run_id: str, killed_at: int | None) -> tuple[int, int]:
    """Start a child; return its id and what it will write its count to."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        counted = count_events(killed_at)
        try:
            work(kind, Path(home), place, run_id)
        except StepcastError as error:
            os.write(2, f"{error}\n".encode())
            os._exit(1)
        except BaseException as error:
            os.write(2, f"unexpected {error!r}\n".encode())
            os._exit(2)
        os.write(writing, str(counted[0]).encode())
        os._exit(0)
    os.close(writing)
    return pid, reading


def answer(plan: list[list[Any]]) -> dict[str, object]:
    """Run the children of one line."""
    started = time.monotonic()
    children = []
    for kind, home, place, run_id, end in plan:
        how, when = end or (None, None)
        pid, count = child(kind, home, place, run_id, when if how == "event" else None)
        children.append((pid, count, when if how == "time" else None))
    for pid, _, after_s in sorted(children, key=lambda process: process[2] or 0.0):
        if after_s is not None:
            time.sleep(max(0.0, started + after_s - time.monotonic()))
            os.kill(pid, signal.SIGKILL)
    ends = [ended(pid) for pid, _, _ in children]
    counts = []
    for _, reading, _ in children:
        with os.fdopen(reading) as pipe:
            counts.append(int(pipe.read() or 0))
    return {"seconds": time.monotonic() - started, "ends": ends, "events": counts}


def main() -> None:
    """Answer lines until stdin ends."""
    if "AWS_ENDPOINT_URL_S3" in os.environ:
        # What a client is made of takes longest to read: once, for all children.
        boto3.client("s3", config=bucket.PATIENCE)
    for line in sys.stdin:
        os.write(1, (json.dumps(answer(json.loads(line))) + "\n").encode())


if __name__ == "__main__":
    main()
