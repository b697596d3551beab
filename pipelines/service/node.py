"""A node's part: it registers with the service, tells what it can do, and leaves at the end."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import quote

from pipelines.service.contracts import Report
from profilers.nodes.inventory import Inventory
from profilers.steady.host import cpu_times
from warehouse.records import BadInput, StepcastError

_TIMEOUT_S = 60.0
_SECONDS = 0.5
_RETRIES = 5


def measured(node_type: str, link_mbps: float | None) -> Report:
    """Time what this machine can do: two seconds.

    Raises:
        RuntimeError: PyTorch cannot.
    """
    told: list[tuple[float, float]] = []

    def say(event: str, **facts: object) -> None:
        told.append((float(str(facts["amount"])), float(str(facts["wall_s"]))))

    import torch

    cores = os.cpu_count() or 1
    inventory = Inventory(cores, say)
    for kind in ("dense", "depthwise", "memory", "disk"):
        inventory.do(kind, _SECONDS)
    dense, depthwise, memory, disk = (amount / wall_s for amount, wall_s in told)
    return Report(
        node_type=node_type,
        cores=float(cores),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        dense_flops=dense,
        depthwise_flops=depthwise,
        memory_Bps=memory,
        disk_Bps=disk,
        gpus=torch.cuda.device_count(),
        link_mbps=link_mbps,
    )


class Membership:
    """A node's place in the cluster of a service; a context manager that leaves at the end.

    Raises:
        BadInput: the service refuses the node.
        StepcastError: the service does not answer.
    """

    def __init__(self, url: str, name: str, token: str | None) -> None:
        self._url = f"{url.rstrip('/')}/v1/cluster/{quote(name, safe='')}"
        self._token = token
        self._before = cpu_times()

    def __enter__(self) -> "Membership":
        return self

    def __exit__(self, *_: object) -> None:
        self._ask("DELETE", "")

    def tell(self, report: Report) -> None:
        """Tell what the node can do, and how busy it has been since it last did."""
        now = cpu_times()
        idle, _ = now.fractions_since(self._before)
        self._before = now
        told = report.model_copy(update={"utilisation": min(max(1 - idle, 0.0), 1.0)})
        self._ask("PUT", "", told.model_dump_json().encode())

    def wait(self) -> None:
        """Wait until the node should tell again."""
        self._ask("GET", "/wanted")

    def stay(self, report: Report, until: Callable[[], bool] = lambda: False) -> None:
        """Tell again and again, until it is time to leave; an outage of the service is waited out."""
        failures = 0
        while not until():
            try:
                self.tell(report)
                self.wait()
                failures = 0
            except BadInput:
                raise
            except StepcastError:
                failures += 1
                if failures > _RETRIES:
                    raise
                time.sleep(min(2.0**failures, 30.0))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> None:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S):
                pass
        except urllib.error.HTTPError as error:
            raise BadInput(f"{self._url}: {error.code}: {_detail(error)}") from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise StepcastError(f"{self._url} does not answer: {error}") from None


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        told = json.loads(error.read(10_000))
        return str(told["detail"])[:500]
    except (ValueError, KeyError, TypeError):
        return str(error.reason)
