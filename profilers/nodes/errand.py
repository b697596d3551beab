"""A program that a node runs for a controller that cannot connect to it.

Nodes get this file before the rest of the project, and import no more of it than `mailbox`.
Started with the file of an `order`, it runs the command that the controller's object holds until
the command ends, the controller says so or falls silent, or the time is over. Then it ends what the
command has started.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from profilers.nodes.mailbox import FIRST_PAUSE_S, Exchange, ObjectGone

_LAST_WORDS_S = 0.5
_ADOPT = 36
"""PR_SET_CHILD_SUBREAPER: what loses its parent below this process gets this one (prctl(2))."""


def order(urls: Mapping[str, str], life_s: float, silence_s: float) -> str:
    """Return what a node is told at first; the rest is in its controller's object.

    Args:
        urls: of `theirs` and `ours` (`profilers.nodes.mailbox`).
        life_s: after which the command is ended.
        silence_s: without a word of the controller after which it is.
    """
    return json.dumps({"urls": dict(urls), "life_s": life_s, "silence_s": silence_s})


def serve(told: str) -> None:
    """Run what the controller's object says; see the module.

    Args:
        told: as `order` has it.
    """
    fields = json.loads(told)
    urls, silence_s = fields["urls"], fields["silence_s"]
    deadline_s = time.monotonic() + fields["life_s"]
    first = Exchange(urls, silence_s, {}, {})
    while not first.heard.get("command"):
        with suppress(OSError, ValueError):
            first.fetch()
        if first.is_silent or first.heard.get("stop") or time.monotonic() > deadline_s:
            return
        time.sleep(FIRST_PAUSE_S)
    program = subprocess.Popen(
        ["sh", "-c", str(first.heard["command"])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert program.stdin and program.stdout and program.stderr
    exchange = Exchange(
        urls,
        silence_s,
        {"stdout": program.stdout.fileno(), "stderr": program.stderr.fileno()},
        {"stdin": os.dup(program.stdin.fileno())},
    )
    program.stdin.close()
    try:
        _relay(exchange, program, deadline_s)
    finally:
        _end(exchange, program)


def _relay(exchange: Exchange, program: "subprocess.Popen[bytes]", deadline_s: float) -> None:
    """Relay until the program has ended and that is known, or it is to be ended."""
    while not (exchange.is_silent or exchange.heard.get("stop")):
        if time.monotonic() > deadline_s:
            return
        code = program.poll()
        if code is not None and all(stream.ended for stream in exchange.outgoing.values()):
            exchange.said["code"] = code
        try:
            exchange.turn()
        except ObjectGone:
            return
        except (OSError, ValueError):
            continue
        renewed = exchange.heard.get("urls")
        if isinstance(renewed, dict) and renewed.keys() == exchange.urls.keys():
            exchange.urls = {name: str(url) for name, url in renewed.items()}


def _end(exchange: Exchange, program: "subprocess.Popen[bytes]") -> None:
    """End the program's session; one that ends by itself without more input may clear up."""
    exchange.incoming["stdin"].close(_LAST_WORDS_S)
    with suppress(subprocess.TimeoutExpired):
        program.wait(_LAST_WORDS_S)
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    code = program.wait()
    if "code" not in exchange.said:
        exchange.said["code"] = code
        for stream in exchange.outgoing.values():
            stream.join(_LAST_WORDS_S)
        with suppress(OSError):
            exchange.post()


def main(file: Path) -> None:
    """Serve the order of a file, and remove the folder that it is in."""
    os.environ.pop("PYTHONPATH", None)
    ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
    try:
        serve(file.read_text())
    except ObjectGone:
        pass  # its controller has given up
    finally:
        _end_adopted()
        shutil.rmtree(file.parent)


def _end_adopted() -> None:
    """End what the command has started in sessions of its own: orphans of it are ours."""
    while True:
        threads = Path("/proc/self/task").iterdir()
        orphans = [
            int(pid) for thread in threads for pid in (thread / "children").read_text().split()
        ]
        if not orphans:
            return
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
