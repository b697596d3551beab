"""Packet captures: tcpdump on a node while something runs, and what is kept of a traced job's."""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from profilers.clusters import Cluster, Node
from profilers.clusters.fleet import BACKENDS
from profilers.commands import missing_tools
from profilers.readers import connections
from warehouse.records import Backend, MissingTool, ProbeFailed

if TYPE_CHECKING:
    from profilers.readers.run_metadata import TracedRun

SNAP_BYTES = 65_549
"""What is kept of a packet: the largest IPv4 packet (65,535) behind an Ethernet header.

Less would do for DATA frames, but their headers stand anywhere in the segments that the kernel
hands to a device (up to 64 KiB at once where it leaves segmentation to the device).
"""
BUFFER_KIB = 65_536
"""Packets that wait for tcpdump; enough for seconds of a gigabit link."""
HEADER_BYTES = 96
"""Enough for Ethernet, IP and TCP headers with their options."""
MAX_BYTES = 4 * 2**30
"""A capture ends when its file is this long; what comes later is not captured."""
EVERYTHING = "tcp"
CONTROL = "tcp and greater 67 and less 2048"
"""Packets with little data: requests and control frames, but no bare acknowledgements."""
_START_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 10.0


def check_tcpdump(backend: Backend) -> None:
    """Refuse to capture packets of processes of this host without tcpdump.

    Machines of the fleet file tell what they lack once they are up.

    Raises:
        MissingTool: there is none.
    """
    if backend not in BACKENDS and missing_tools("tcpdump"):
        raise MissingTool("tcpdump is not installed; `stepcast doctor` says how")


@contextmanager
def capture(
    cluster: Cluster,
    node: Node,
    file: Path,
    packets: str = EVERYTHING,
    snap_bytes: int = SNAP_BYTES,
) -> Iterator[None]:
    """Capture packets of a node's link in both directions, as long as the block runs.

    A node sees what it sends after its own link's shaping and what it gets after the sender's.
    Time stamps are the node's clock, in whole microseconds of UTC. tcpdump ends whatever happens
    in the block; `file` is there once it has ended, cut off in its last packet if it grew to
    `MAX_BYTES`. `packets` is a filter as tcpdump reads it; of each, `snap_bytes` are kept.

    Raises:
        MissingTool: there is no tcpdump.
        ProbeFailed: tcpdump did not start.
    """
    check_tcpdump(cluster.backend)
    stderr_file = file.with_suffix(".tcpdump.txt")
    with cluster.shared(node, file.parent) as folder:
        argv = _argv(cluster.interface, folder / file.name, packets, snap_bytes)
        process = cluster.popen(node, argv, stderr=stderr_file)
        try:
            deadline_s = time.monotonic() + _START_TIMEOUT_S
            while "listening on" not in stderr_file.read_text():
                if process.poll() is not None or time.monotonic() > deadline_s:
                    words = stderr_file.read_text().strip()[-500:] or f"exit {process.returncode}"
                    raise ProbeFailed(f"tcpdump did not start: {words}")
                time.sleep(0.02)
            yield
        finally:
            with suppress(ProcessLookupError):
                cluster.signal(process, signal.SIGINT)  # it writes what it has
            try:
                process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def read_captures(
    control: Path, steps: Path, trace: "TracedRun", step_times_us: Sequence[tuple[int, int]]
) -> tuple[dict[str, pl.DataFrame], float, dict[str, Path]]:
    """Read captures of a job with one worker; keep copies without tensors, which are most of it.

    Args:
        control: of the control frames of its start: they set its windows. Removed.
        steps: of traced steps. Removed.
        trace: of these steps.
        step_times_us: their starts and ends.

    Returns:
        Tables stream and http2_frame, the share of timed transfers whose packets were found, and
        the copies by name.
    """
    frames = connections.read(
        steps,
        control=control,
        transfers=trace.transfers,
        sizes_bytes=dict(trace.operation.select("operation", "size_bytes").iter_rows()),
        step_times_us=step_times_us,
        keep_in=steps.parent,
    )
    kept = {}
    for file in (control, steps):
        file.unlink()
        kept[f"{file.name}.gz"] = steps.parent / f"{file.name}.gz"
    share = connections.matched_fraction(trace.timing, trace.operation, frames["stream"])
    return frames, share, kept


def _argv(interface: str, file: Path, packets: str, snap_bytes: int) -> list[str]:
    return [
        "prlimit",
        f"--fsize={MAX_BYTES}",
        "tcpdump",
        f"--interface={interface}",
        f"--snapshot-length={snap_bytes}",
        f"--buffer-size={BUFFER_KIB}",
        "--immediate-mode",
        "--no-promiscuous-mode",
        "-n",
        "-Z",
        "root",
        "-w",
        str(file),
        packets,
    ]
