"""A web server of this process, which keeps what it is told."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, cast


class Posts(BaseHTTPRequestHandler):
    """Keeps what is posted; answers with the server's status."""

    def do_POST(self) -> None:
        server = cast("WebServer", self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.posted.append((self.path, json.loads(body)))
        self.send_response(server.status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class WebServer(HTTPServer):
    """A web server on a free port; `posted` has path and JSON of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Posts)
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.status = 204


@contextmanager
def serving(server: WebServer) -> Iterator[WebServer]:
    """Serve until the block ends."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
