"""Traffic of others: a neighbour that exchanges datagrams with the servers at a constant rate.

Datagrams, because they do not slow down for those who train: what is left of the link is known.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from profilers.clusters import Cluster, Node
from profilers.links.probe import listen
from warehouse.records import BadInput, ProbeFailed

_LONGEST_S = 86_400
"""iperf3 must be given an end; it is killed when training ends."""
_START_TIMEOUT_S = 15.0
_FLOWING_BYTES = 100_000
"""More than iperf3's first messages: datagrams flow."""
_RECEIVED, _SENT = 0, 8
"""Columns of bytes in /proc/net/dev."""


@contextmanager
def cross_traffic(cluster: Cluster, fraction: float | None) -> Iterator[None]:
    """Send this fraction of the links' speed between the neighbour and each server, both ways.

    Does nothing without a fraction.

    Begins once the servers send: with --bidir that direction starts last.

    Raises:
        BadInput: the cluster has no neighbour, or links without a speed.
        ProbeFailed: no traffic after 15 s, or iperf3 ended before the training.
    """
    if fraction is None:
        yield
        return
    neighbours = cluster.of_role("neighbour")
    if not neighbours or cluster.link_mbps is None:
        raise BadInput(
            f"cross traffic: expected shaped links and a neighbour, found {cluster.link_mbps} Mb/s "
            f"and {len(neighbours)} neighbour(s)"
        )
    rate_bps = fraction * cluster.link_mbps * 1e6
    processes = []
    try:
        for server in cluster.of_role("server"):
            had_bytes = _counters(cluster, server)[_SENT]
            processes += _exchange(cluster, neighbours[0], server, rate_bps)
            give_up_at_s = time.monotonic() + _START_TIMEOUT_S
            while _counters(cluster, server)[_SENT] < had_bytes + _FLOWING_BYTES:
                if time.monotonic() > give_up_at_s:
                    within = f"in {_START_TIMEOUT_S:.0f} s"
                    raise ProbeFailed(f"cross traffic: none from {server.name} {within}")
                time.sleep(0.05)
        yield
        ended = [process for process in processes if process.poll() is not None]
        if ended:
            raise ProbeFailed(f"cross traffic: iperf3 ended early, exit {ended[0].returncode}")
    finally:
        for process in processes:
            process.kill()


def received_bytes(cluster: Cluster) -> int:
    """Return the bytes that the neighbours have received so far, with their headers."""
    return sum(_counters(cluster, node)[_RECEIVED] for node in cluster.of_role("neighbour"))


def _counters(cluster: Cluster, node: Node) -> list[int]:
    """Return what the node's interface has counted, as /proc/net/dev orders it."""
    for line in cluster.run(node, ["cat", "/proc/net/dev"]).splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == cluster.interface:
            return [int(count) for count in counters.split()]
    raise ProbeFailed(f"{node.name} has no interface {cluster.interface}")


def _exchange(
    cluster: Cluster, neighbour: Node, server: Node, rate_bps: float
) -> "list[subprocess.Popen[str]]":
    # Nobody reads the pipes, so nothing but a last report may be written to them.
    listener, port = listen(cluster, server, "--interval", "0")
    rate = ["--udp", "--bidir", "--bitrate", f"{rate_bps:.0f}", "--time", str(_LONGEST_S)]
    quiet = ["--interval", "0", "--json"]
    client = cluster.popen(
        neighbour, ["iperf3", "--client", server.address, "--port", port, *rate, *quiet]
    )
    return [listener, client]
