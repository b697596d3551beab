"""The stand-in EC2 at a port of this host, for processes and for tests."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from moto.server import ThreadedMotoServer

from tests.profilers.renting.cloud import Cloud


@contextmanager
def serve() -> Iterator[tuple[Cloud, dict[str, str]]]:
    """Yield a cloud, and the environment in which boto3 finds it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    cloud = Cloud(moto.get_host_and_port())
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cloud))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield (
            cloud,
            {
                "AWS_ENDPOINT_URL_EC2": url,
                "AWS_ENDPOINT_URL_PRICING": url,
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "testing",
                "AWS_CONFIG_FILE": "/nowhere",
                "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
                "AWS_EC2_METADATA_DISABLED": "true",
                "NO_PROXY": "127.0.0.1",
            },
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        moto.stop()


def _handler(cloud: Cloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = cloud.answer(dict(self.headers), body)
            if answer is None:
                self.close_connection = True
                self.connection.close()
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Cloud, dict[str, str]]]:
    """A cloud for the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        with serve() as (cloud, environment):
            for name, value in environment.items():
                patch.setenv(name, value)
            yield cloud, environment


@pytest.fixture
def cloud(served: tuple[Cloud, dict[str, str]]) -> Iterator[Cloud]:
    """A cloud in which nothing lives, nothing goes wrong and all is to be had."""
    shared = served[0]
    shared.faults, shared.full, shared.asked = [], set(), []
    if left := shared.alive():
        shared.direct.terminate_instances(InstanceIds=list(left))
    yield shared
