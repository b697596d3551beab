"""EC2's metadata service, version 2, as far as notices of interruptions go."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TERMINATE = '{"action": "terminate", "time": "2026-01-05T18:02:00Z"}'
_TOKEN = "a-token"
_TOKEN_PATH, _NOTICE_PATH = "/latest/api/token", "/latest/meta-data/spot/instance-action"


class Service(ThreadingHTTPServer):
    """Tells the notices that there are, by what comes before the paths of the real service."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.notices: dict[str, str] = {}
        self.asked: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_PUT(self) -> None:
        """Give a token to whoever says how long it is to last."""
        fine = self.path.endswith(_TOKEN_PATH)
        life = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        self._answer(200, _TOKEN) if fine and life.isdigit() else self._answer(400, "")

    def do_GET(self) -> None:
        """Tell of the notice, to those with a token; there is nothing until there is one."""
        self.server.asked.append(self.path)
        notice = self.server.notices.get(self.path.removesuffix(_NOTICE_PATH))
        if self.headers.get("X-aws-ec2-metadata-token") != _TOKEN:
            self._answer(401, "")
        elif not self.path.endswith(_NOTICE_PATH) or notice is None:
            self._answer(404, "")
        else:
            self._answer(200, notice)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())


@contextmanager
def metadata_service() -> Iterator[tuple[str, Service]]:
    """Yield the address of a service, and the service."""
    with Service() as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{service.server_port}", service
        finally:
            service.shutdown()
