"""Interruption notices: of EC2's metadata service, here a server of our own, and of files."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipelines.runtime.notices import EmulatedNotices, InstanceMetadata, Notice, source

TERMINATE = '{"action": "terminate", "time": "2026-01-05T18:02:00Z"}'
TOKEN = "a-token"


class Metadata(BaseHTTPRequestHandler):
    """What EC2's metadata service, version 2, answers; `notice` is None until there is one."""

    notice: str | None = None
    asked: list[str] = []  # noqa: RUF012

    def do_PUT(self) -> None:
        """Give a token to whoever says how long it is to last."""
        fine = self.path == "/latest/api/token"
        life = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        self._answer(200, TOKEN) if fine and life.isdigit() else self._answer(400, "")

    def do_GET(self) -> None:
        """Tell of the notice, to those with a token."""
        self.asked.append(self.path)
        if self.headers.get("X-aws-ec2-metadata-token") != TOKEN:
            self._answer(401, "")
        elif self.path != "/latest/meta-data/spot/instance-action" or self.notice is None:
            self._answer(404, "")
        else:
            self._answer(200, self.notice)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture
def service() -> Iterator[tuple[str, type[Metadata]]]:
    """Return the address of a metadata service, and what it answers."""
    handler = type("Fresh", (Metadata,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", handler
        server.shutdown()


def test_there_is_no_notice_until_there_is_one(service: tuple[str, type[Metadata]]) -> None:
    url, metadata = service
    notices = InstanceMetadata(url)
    assert notices.poll() is None
    metadata.notice = TERMINATE
    assert notices.poll() == Notice("terminate", "2026-01-05T18:02:00Z")
    assert set(metadata.asked) == {"/latest/meta-data/spot/instance-action"}


@pytest.mark.parametrize("answer", ["", "{", "[]", '{"action": "stop"}'])
def test_what_is_no_notice_is_none(answer: str, service: tuple[str, type[Metadata]]) -> None:
    url, metadata = service
    metadata.notice = answer
    assert InstanceMetadata(url).poll() is None


def test_a_service_that_does_not_answer_has_no_notice() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Metadata) as server:
        port = server.server_port
    assert InstanceMetadata(f"http://127.0.0.1:{port}").poll() is None


def test_an_emulated_notice_is_a_file(tmp_path: Path) -> None:
    notices = source(str(tmp_path / "notice.json"))
    assert notices == EmulatedNotices(tmp_path / "notice.json")
    assert notices.poll() is None
    (tmp_path / "notice.json").write_text(TERMINATE)
    assert notices.poll() == Notice("terminate", "2026-01-05T18:02:00Z")


def test_an_address_of_a_service_is_told_from_a_file() -> None:
    assert source("http://169.254.169.254") == InstanceMetadata()
