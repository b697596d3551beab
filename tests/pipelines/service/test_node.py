"""A node's part, against a service in this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pipelines.cli import serve
from pipelines.service import node
from pipelines.service.app import service
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.node import Membership, ServiceUnreachable, measure_node
from profilers.steady.host import CpuTimes
from tests.pipelines.service.conftest import TOKEN, Halves
from tests.pipelines.service.reports import report
from warehouse.records import BadInput


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve at a free port; yield the address."""
    with serve._listening("127.0.0.1", 0) as listening:  # noqa: SLF001
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def address(collector: Collector, checker: Checker) -> Iterator[str]:
    """Return the address of a service that asks for the token."""
    with served(service(Halves(), collector, checker, TOKEN)) as at:
        yield at


def cpu(*idle: float) -> Iterator[CpuTimes]:
    """Yield what the kernel has counted, ten more seconds each time, of which so many were idle."""
    total_s = idle_s = 0.0
    for more_s in idle:
        total_s, idle_s = total_s + 10, idle_s + more_s
        yield CpuTimes(idle_s, 0.0, total_s)


def test_a_node_tells_how_busy_it_has_been_and_leaves(address: str, collector: Collector) -> None:
    counted = cpu(0, 7.5, 10, -1)
    with Membership(f"{address}/", "a", TOKEN, lambda: next(counted)) as membership:
        utilisations = []
        for _ in range(3):
            membership.tell(report())
            membership.wait()
            (node,) = collector.cluster().nodes
            utilisations.append(node.report.utilisation)
        assert (node.name, utilisations) == ("a", [0.25, 0.0, 1.0])
    assert collector.cluster().nodes == []


def test_a_node_tells_how_much_memory_is_free_each_time(address: str, collector: Collector) -> None:
    free = iter([3 * 10**9, 10**9])
    counted = cpu(0, 10, 10)
    with Membership(address, "a", TOKEN, lambda: next(counted), lambda: next(free)) as membership:
        free_bytes = []
        for _ in range(2):
            membership.tell(report())
            (node,) = collector.cluster().nodes
            free_bytes.append(node.report.available.memory_bytes)
    assert free_bytes == [3e9, 1e9]


def test_another_token_is_refused(address: str) -> None:
    for token in (None, "another-token"):
        with pytest.raises(BadInput, match="refuses: 401 send the service's token"):
            Membership(address, "a", token).__enter__()


def test_an_outage_is_waited_out_for_a_while(collector: Collector, checker: Checker) -> None:
    with served(service(Halves(), collector, checker, None)) as address:
        membership = Membership(address, "a", None)
        membership.tell(report())
    pauses: list[float] = []
    with pytest.raises(ServiceUnreachable, match=f"no service answers at {address} .*refused"):
        membership.stay(report(), pause=pauses.append)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 30.0]
    membership.__exit__()


def answering(*codes: int) -> ASGIApp:
    """Return what answers with these codes, one after another."""
    left = iter(codes)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await JSONResponse({"detail": "no"}, next(left))(scope, receive, send)

    return app


def test_a_service_that_cannot_answer_for_a_while_is_waited_out() -> None:
    """As one behind a proxy that begins again."""
    pauses: list[float] = []
    ends = iter([False, False, True])
    with served(answering(204, 503, 204, 200, 502)) as address:
        Membership(address, "a", None).stay(report(), lambda: next(ends), pauses.append)
        assert pauses == [2.0]
        with pytest.raises(ServiceUnreachable, match="cannot answer now: 502 no"):
            Membership(address, "a", None).__enter__()


@pytest.mark.parametrize("code", [401, 500])
def test_whatever_a_service_says_a_node_that_ends_has_left(code: int) -> None:
    """Ctrl-C stays Ctrl-C."""
    with (
        served(answering(200, code)) as address,
        pytest.raises(KeyboardInterrupt),
        Membership(address, "a", None),
    ):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "http://host:port",
        "http://user@host",
        "http://host?token=x",
        "http://[",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="expected a service's address as http://"):
        Membership(url, "a", None)


def test_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.service.node._SECONDS", 0.01)
    measured = measure_node("lab.xeon", 1000.0)
    assert (measured.node_type, measured.link_mbps) == ("lab.xeon", 1000.0)
    assert measured.cores >= 1 and measured.memory_bytes > 2**27
    assert measured.free_memory_bytes is not None and measured.free_memory_bytes > 0
    # More than a slide rule, less than all of today's computers.
    assert 1e6 < measured.dense_flops < 1e18 and 1e6 < measured.memory_Bps < 1e15


def test_free_memory_is_that_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that the kernel keeps at hand make room."""
    monkeypatch.setattr(node, "_CGROUP", tmp_path)
    monkeypatch.setattr(node, "_MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    2000 kB\n")
    assert node.free_memory_bytes() == 2_048_000
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 100000\ninactive_file 600000\n")
    assert node.free_memory_bytes() == 2_048_000
    (tmp_path / "memory.max").write_text("1000000\n")
    assert node.free_memory_bytes() == 900_000


def test_machines_of_one_name_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node")
    monkeypatch.setattr(node, "_BOOT", tmp_path / "boot_id")
    names = []
    for boot in (
        "6b1f3c2a-8f3e-4f3c-9a55-0c9c3f1d2e77\n",
        "f00dfeed-8f3e-4f3c-9a55-0c9c3f1d2e77\n",
    ):
        (tmp_path / "boot_id").write_text(boot)
        names.append(node.own_name())
    assert names == ["node-6b1f3c2a", "node-f00dfeed"]
