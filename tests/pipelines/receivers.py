"""A web server and a mail server of this process, which keep what they are told."""

import json
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, TypeVar, cast


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


class Mails(socketserver.StreamRequestHandler):
    """Speaks as much SMTP (RFC 5321) as taking a message takes."""

    def handle(self) -> None:
        server = cast("MailServer", self.server)
        self._say("220 here")
        while line := self.rfile.readline().decode().strip():
            verb = line.partition(" ")[0].upper()
            if verb == "RCPT":
                server.recipients.append(line)
                self._say(server.answer)
            elif verb == "DATA":
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                content = b"".join(lines)
                message = message_from_bytes(content, policy=policy.default)
                server.mails.append(message)
                self._say("250 taken")
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class MailServer(socketserver.TCPServer):
    """A mail server on a free port; `mails` are the messages it took."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Mails)
        self.mails: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.answer = "250 fine"


Server = TypeVar("Server", WebServer, MailServer)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Serve until the block ends."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
