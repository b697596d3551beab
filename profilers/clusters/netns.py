"""Emulated network: namespaces joined by a bridge, and the congestion controls that they may use.

Nothing is made in the host's own namespace, so clusters can neither collide with each other nor
with the host, and deleting the namespaces deletes every link and queue in them.
"""

import fcntl
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from profilers.clusters.cgroups import end
from profilers.commands import run
from warehouse.records import BadInput, ProbeFailed, error_context

NETNS = Path("/run/netns")
CONGESTION_CONTROL = "cubic"
QUEUE_S = 0.010
"""Depth of each link's queue. A deep one is bufferbloat and costs throughput under contention."""
BURST_S = 0.0005
"""How far a link may run ahead of its speed after a pause, and the longest packet the kernel may
hand it: both let a transfer begin at the speed of memory, which no real link does."""
_LEAST_BURST_BYTES, _MOST_BURST_BYTES = 5_000, 65_536
_SUBNET = "10.77.0"
MTU_BYTES = 1500
"""The kernel's own for such links."""
_MOST_NODES = 254


@dataclass(frozen=True)
class NamespaceNetwork:
    """Namespaces `<prefix>-<node>` on one bridge; links shaped to `link_mbps` in each direction."""

    prefix: str
    link_mbps: float | None

    def up(self, nodes: Iterable[str]) -> dict[str, str]:
        """Create the namespaces; return each node's IPv4 address."""
        switch = self.namespace("switch")
        run(["ip", "netns", "add", switch])
        run(["ip", "-n", switch, "link", "add", "br0", "type", "bridge"])
        run(["ip", "-n", switch, "link", "set", "br0", "up"])
        return {node: self.join(node, index) for index, node in enumerate(nodes, start=1)}

    def namespace(self, node: str) -> str:
        """Name of a node's namespace."""
        return f"{self.prefix}-{node}"

    def down(self) -> None:
        """Kill what runs in the namespaces and delete them; safe to call twice."""
        for name in namespaces():
            if name.startswith(f"{self.prefix}-"):
                delete(name)

    def join(self, node: str, index: int) -> str:
        """Create a node's namespace and link, the `index`-th of all (1 to 254); return its address.

        Raises:
            ProbeFailed: the network is not up, or has had 254 nodes.
        """
        if index > _MOST_NODES:
            raise ProbeFailed(f"{self.prefix}: a network has {_MOST_NODES} addresses, all are used")
        switch = self.namespace("switch")
        name, port, address = self.namespace(node), f"port{index}", f"{_SUBNET}.{index}"
        run(["ip", "netns", "add", name])
        peer = ["type", "veth", "peer", "name", "eth0", "netns", name]
        run(["ip", "-n", switch, "link", "add", port, *peer])
        run(["ip", "-n", switch, "link", "set", port, "master", "br0", "up"])
        run(["ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0"])
        run(["ip", "-n", name, "link", "set", "lo", "up"])
        run(["ip", "-n", name, "link", "set", "eth0", "up"])
        _set_congestion_control(name)
        if self.link_mbps is not None:
            _shape(name, "eth0", self.link_mbps)
            _shape(switch, port, self.link_mbps)
        return address


def congestion_control(namespace: str) -> str:
    """Return the congestion control that connections of a namespace use."""
    inside = ["nsenter", f"--net={NETNS / namespace}"]
    return run([*inside, "sysctl", "-n", "net.ipv4.tcp_congestion_control"]).strip()


def namespaces() -> list[str]:
    """Names of all named network namespaces of this host."""
    return sorted(path.name for path in NETNS.iterdir()) if NETNS.is_dir() else []


def delete(name: str) -> None:
    """Kill the processes of a namespace and delete it; of this process's own, only the name."""
    space = _identity(NETNS / name)
    if space is not None and space != _identity(Path("/proc/self/ns/net")):
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        end(pids, lambda pid: _identity(Path(f"/proc/{pid}/ns/net")) == space)
    for _ in range(20):
        if not (NETNS / name).exists():
            return
        with suppress(ProbeFailed):
            run(["ip", "netns", "delete", name])
            return
        time.sleep(0.1)
    raise ProbeFailed(f"namespace {name} cannot be deleted; try `ip netns delete {name}`")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a namespace from all others; None where there is none."""
    with suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino
    return None


def check_count(nodes: int) -> None:
    """Refuse more nodes than a network has addresses.

    Raises:
        BadInput: there are more.
    """
    if nodes > _MOST_NODES:
        raise BadInput(f"{nodes} nodes: an emulated network has addresses for {_MOST_NODES}")


def _set_congestion_control(namespace: str) -> None:
    """Use cubic in a namespace.

    The kernel lets a namespace choose only what the host's list names. Where that leaves cubic out,
    it is in the list for as long as it takes to choose it; the host's own choice is not touched.
    """
    choose = ["sysctl", "-q", "-w", f"net.ipv4.tcp_congestion_control={CONGESTION_CONTROL}"]
    inside = ["nsenter", f"--net={NETNS / namespace}"]
    try:
        run([*inside, *choose])
    except ProbeFailed:
        with allow_congestion_control(CONGESTION_CONTROL):
            run([*inside, *choose])


def _shape(namespace: str, device: str, mbps: float) -> None:
    """Limit what leaves a device; queue and bursts are `QUEUE_S` and `BURST_S` at its speed."""
    rate, speed_Bps = f"{round(mbps * 1000)}kbit", mbps * 1e6 / 8
    queue_bytes = max(round(speed_Bps * QUEUE_S), 2 * _LEAST_BURST_BYTES)
    burst_bytes = min(max(round(speed_Bps * BURST_S), _LEAST_BURST_BYTES), _MOST_BURST_BYTES)
    burst = str(burst_bytes)
    run(["ip", "-n", namespace, "link", "set", device, "gso_max_size", burst])
    tc = ["tc", "-n", namespace]
    run([*tc, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1"])
    shape = ["htb", "rate", rate, "ceil", rate, "burst", burst, "cburst", burst]
    run([*tc, "class", "add", "dev", device, "parent", "1:", "classid", "1:1", *shape])
    limit = ["bfifo", "limit", str(queue_bytes)]
    run([*tc, "qdisc", "add", "dev", device, "parent", "1:1", "handle", "10:", *limit])


ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
"""The host's list of the congestion controls that namespaces may choose."""


@contextmanager
def allow_congestion_control(name: str) -> Iterator[None]:
    """Have the list hold an algorithm during the block; other processes that want that wait.

    A process that is killed in the block leaves it in the list until the host starts again.

    Raises:
        ProbeFailed: the kernel does not have the algorithm, or does not let its list be changed.
    """
    with ExitStack() as stack:
        failure = f"{name} cannot be added to {ALLOWED}; try `modprobe tcp_{name}`"
        with error_context(failure, OSError, kind=ProbeFailed):
            lock = stack.enter_context(ALLOWED.open())
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = lock.read()
            ALLOWED.write_text(f"{before.strip()} {name}")
        try:
            yield
        finally:
            ALLOWED.write_text(before)
