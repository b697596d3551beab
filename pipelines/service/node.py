"""A node's part: it registers with the service, tells what it can do, and leaves at the end."""

import http.client
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

from pipelines.service.contracts import Report
from profilers.clusters.node_types import check_host, fleet_types, node_group, node_types
from profilers.inventory.program import Inventory
from profilers.steady.host import CpuTimes, cpu_times
from warehouse.records import BadInput, StepcastError

_TIMEOUT_S = 30.0
_SECONDS = 0.4
_RETRIES = 5
_LONGEST_WAIT_S = 30.0
_ANSWER_BYTES = 10_000
_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BOOT_DIGITS = 8


class ServiceUnreachable(StepcastError):
    """No service answers at an address, or one that cannot now."""

    exit_code = 2


def own_name() -> str:
    """Return what this machine is called: its host's name, and digits that no other of it has."""
    return f"{socket.gethostname()}-{_BOOT.read_text().strip()[:_BOOT_DIGITS]}"


def measure_node(node_type: str, link_mbps: float | None) -> Report:
    """Time what this machine can do: some two seconds.

    Raises:
        BadInput: it is not what the node type declares.
        RuntimeError: PyTorch cannot.
    """
    timings: list[tuple[float, float]] = []

    def say(event: str, **facts: object) -> None:
        timings.append((float(str(facts["amount"])), float(str(facts["wall_s"]))))

    import torch

    cores = len(os.sched_getaffinity(0))
    if node_type in {**node_types(), **fleet_types()}:
        check_host(node_group("worker", node_type, 1))
    inventory = Inventory(cores, say)
    for kind in ("dense", "depthwise", "pointwise", "memory", "disk"):
        inventory.do(kind, _SECONDS)
    dense, depthwise, pointwise, memory, disk = (amount / wall_s for amount, wall_s in timings)
    return Report(
        node_type=node_type,
        cores=float(cores),
        memory_bytes=_memory_bytes(),
        free_memory_bytes=free_memory_bytes(),
        dense_flops=dense,
        depthwise_flops=depthwise,
        pointwise_flops=pointwise,
        memory_Bps=memory,
        disk_Bps=disk,
        gpus=torch.cuda.device_count(),
        link_mbps=link_mbps,
    )


class Membership:
    """A node's place in the cluster of a service; a context manager that leaves at the end.

    Args:
        url: the service's address.
        name: the node's.
        token: what requests carry; None: nothing.
        cpu: what the kernel has counted so far.
        free_memory: bytes that nobody uses now; None: what the kernel says.

    Raises:
        BadInput: the address is none, or the service refuses the node.
        Unreachable: the service does not answer.
    """

    def __init__(
        self,
        url: str,
        name: str,
        token: str | None,
        cpu: Callable[[], CpuTimes] = cpu_times,
        free_memory: Callable[[], int] | None = None,
    ) -> None:
        self._url, self._connect = url, _connecting(url)
        self._path = f"{urlsplit(url).path.rstrip('/')}/v1/cluster"
        self._name = quote(name, safe="")
        self._token = token
        self._cpu, self._before = cpu, cpu()
        self._free_memory = free_memory or free_memory_bytes

    def __enter__(self) -> "Membership":
        self._ask("GET", "")
        return self

    def __exit__(self, *_: object) -> None:
        # Whatever the service says of it now, the node has left, by Ctrl-C or for a reason.
        with suppress(StepcastError):
            self._ask("DELETE", f"/{self._name}")

    def tell(self, report: Report) -> None:
        """Tell what the node can do, how busy it has been since it last did, and what is free."""
        now = self._cpu()
        idle, _ = now.fractions_since(self._before)
        self._before = now
        changed = {
            "utilisation": min(max(1 - idle, 0.0), 1.0),
            "free_memory_bytes": self._free_memory(),
        }
        updated = report.model_copy(update=changed)
        self._ask("PUT", f"/{self._name}", updated.model_dump_json().encode())

    def wait(self) -> None:
        """Wait until the node should tell again."""
        self._ask("GET", f"/{self._name}/wanted")

    def stay(
        self,
        report: Report,
        until: Callable[[], bool] = lambda: False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Tell again and again, until it is time to leave; an outage of a minute is waited out."""
        failures = 0
        while not until():
            try:
                self.wait()
                self.tell(report)
                failures = 0
            except ServiceUnreachable:
                failures += 1
                if failures > _RETRIES:
                    raise
                pause(min(2.0**failures, _LONGEST_WAIT_S))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connect()
        try:
            connection.request(method, self._path + path, body, headers)
            answer = connection.getresponse()
            content = answer.read(_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise ServiceUnreachable(
                f"no service answers at {self._url} ({why}); `stepcast serve` starts one"
            ) from None
        finally:
            connection.close()
        if answer.status >= 500:
            raise ServiceUnreachable(
                f"the service at {self._url} cannot answer now: {answer.status} "
                f"{_detail(content, answer.reason)}"
            )
        if answer.status >= 300:
            raise BadInput(
                f"{self._url} refuses: {answer.status} {_detail(content, answer.reason)}"
            )


def _connecting(url: str) -> Callable[[], http.client.HTTPConnection]:
    """Return what connects to a service: directly, and nowhere else, for it is told the token.

    Raises:
        BadInput: the address is none.
    """
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        is_ours = parts.scheme in kinds and host and not (parts.username or parts.query)
    except ValueError:
        is_ours = False
    if not is_ours:
        raise BadInput(f"expected a service's address as http://10.0.0.1:8791, found {url!r:.120}")
    return lambda: kinds[parts.scheme](str(host), port, timeout=_TIMEOUT_S)


def _detail(content: bytes, reason: str) -> str:
    try:
        return str(json.loads(content)["detail"])[:500]
    except (ValueError, KeyError, TypeError):
        return reason


def _memory_bytes() -> int:
    """Return the memory of this machine, or of the container that this is."""
    all_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(all_bytes, int((_CGROUP / "memory.max").read_text()))
    except (OSError, ValueError):
        return all_bytes


def free_memory_bytes() -> int:
    """Return the memory that a new process may take here: free, or of files that can go."""
    fields = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
    free_bytes = int(fields["MemAvailable"].split()[0]) * 1024
    try:
        most_bytes = int((_CGROUP / "memory.max").read_text())
        used_bytes = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        files_bytes = int(stat["inactive_file"])
    except (OSError, ValueError, KeyError):  # no container, or one without an end
        return free_bytes
    return max(min(free_bytes, most_bytes - used_bytes + files_bytes), 0)
