"""Packet captures on a node: tcpdump while something runs."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from profilers.clusters import Cluster, Node
from profilers.commands import missing
from warehouse.records import MissingTool, ProbeFailed

SNAP_BYTES = 65_549
"""What is kept of a packet: the largest IPv4 packet (65,535) behind an Ethernet header.

Less would do for DATA frames, but their headers stand anywhere in the segments that the kernel
hands to a device (up to 64 KiB at once where it leaves segmentation to the device).
"""
BUFFER_KIB = 65_536
"""Packets that wait for tcpdump; enough for seconds of a gigabit link."""
MAX_BYTES = 4 * 2**30
"""A capture ends when its file is this long; what comes later is not captured."""
_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 10.0


@contextmanager
def capture(
    cluster: Cluster, node: Node, file: Path, *, max_bytes: int = MAX_BYTES
) -> Iterator[None]:
    """Capture the TCP packets of a node's link in both directions, as long as the block runs.

    A node sees what it sends after its own link's shaping and what it gets after the sender's.
    Time stamps are the node's clock, in whole microseconds of UTC. tcpdump ends whatever happens
    in the block; `file` is there once it has ended, cut off in its last packet if it grew to
    `max_bytes`.

    Raises:
        MissingTool: there is no tcpdump.
        ProbeFailed: tcpdump did not start.
    """
    if missing("tcpdump"):
        raise MissingTool("tcpdump is not installed; `stepcast doctor` says how")
    said = file.with_suffix(".tcpdump.txt")
    process = cluster.popen(node, _argv(cluster.interface, file, max_bytes), stderr=said)
    try:
        _wait_until_listening(process, said)
        yield
    finally:
        _stop(process)


def _argv(interface: str, file: Path, max_bytes: int) -> list[str]:
    return [
        "prlimit",
        f"--fsize={max_bytes}",
        "tcpdump",
        f"--interface={interface}",
        f"--snapshot-length={SNAP_BYTES}",
        f"--buffer-size={BUFFER_KIB}",
        "--immediate-mode",
        "--no-promiscuous-mode",
        "-n",
        "-Z",
        "root",
        "-w",
        str(file),
        "tcp",
    ]


def _wait_until_listening(process: "subprocess.Popen[str]", said: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while "listening on" not in said.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            words = said.read_text().strip()[-500:] or f"exit {process.returncode}"
            raise ProbeFailed(f"tcpdump did not start: {words}")
        time.sleep(0.02)


def _stop(process: "subprocess.Popen[str]") -> None:
    """Let tcpdump write what it has; kill it if it does not end."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
