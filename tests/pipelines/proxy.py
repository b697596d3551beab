"""The proxy of deploy/services/nginx.conf, on ports of this host, in front of a server."""

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from time import monotonic, sleep

from tests.ports import free_port
from warehouse.home import CHECKOUT

NGINX = which("nginx", path="/usr/sbin:/usr/bin")
USER, PASSWORD = "ada", "correct horse"
_START_S = 60.0


@dataclass(frozen=True)
class Proxy:
    """Where the proxy is.

    Attributes:
        https, http: its ports.
        trusted: what knows its certificate.
        certificate: the file of that.
    """

    https: int
    http: int
    trusted: ssl.SSLContext
    certificate: Path


@contextmanager
def proxy(folder: Path, upstream: int) -> Iterator[Proxy]:
    """Run nginx with our example in front of a port of this host."""
    assert NGINX is not None
    certificate, key, words = folder / "cert.pem", folder / "key.pem", folder / "words"
    _run(
        *"openssl req -x509 -nodes -days 1 -newkey ec".split(),
        *("-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        *("-keyout", str(key), "-out", str(certificate)),
    )
    words.write_text(f"{USER}:{_run('openssl', 'passwd', '-6', PASSWORD)}")
    https, http = free_port(), free_port()
    example = (CHECKOUT / "deploy/services/nginx.conf").read_text()
    for original, replacement in {
        "listen 443 ssl": f"listen 127.0.0.1:{https} ssl",
        "listen 80": f"listen 127.0.0.1:{http}",
        "http://127.0.0.1:3000": f"http://127.0.0.1:{upstream}",
        "/etc/ssl/certs/stepcast.pem": str(certificate),
        "/etc/ssl/private/stepcast.key": str(key),
        "/etc/nginx/stepcast.htpasswd": str(words),
    }.items():
        assert example.count(original) == 1, original
        example = example.replace(original, replacement)
    (folder / "site.conf").write_text(example)
    paths = "".join(
        f"{what}_temp_path {folder}/{what};"
        for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; pid {folder}/pid; error_log stderr; events {{}}"
    as_root = "user root;" if folder.owner() == "root" else ""
    (folder / "nginx.conf").write_text(
        f"{as_root} {main} http {{ access_log off; {paths} include {folder}/site.conf; }}"
    )
    trusted = ssl.create_default_context(cafile=str(certificate))
    with subprocess.Popen([NGINX, "-p", str(folder), "-c", "nginx.conf"]) as process:
        try:
            wait_for_port(https)
            yield Proxy(https, http, trusted, certificate)
        finally:
            process.terminate()


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def wait_for_port(port: int) -> None:
    """Wait until somebody listens on a port of this host."""
    until = monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert monotonic() < until
            sleep(0.02)
        else:
            return
