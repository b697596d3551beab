"""What `stepcast serve` does."""

import atexit
import os
import re
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.cli.errors import Interrupted
from pipelines.cli.tables import tell
from warehouse.fields import checked_name
from warehouse.history import PublishedHistory
from warehouse.home import home
from warehouse.records import BadInput, MissingTool

_TOKEN = re.compile(r"[!-~]{8,200}")
_TRAINING_MINUTES = 60.0
"""That training for a new type of dataset takes."""


def serve(
    host: str,
    port: int,
    token: str | None,
    asks_for_token: bool,
    datasets: Path | None,
    allows_sql: bool = False,
) -> None:
    """Serve until it is interrupted.

    Raises:
        BadInput: the address is taken or none of this machine's, the token is none, or there is
            one that nobody shall be asked for.
        Interrupted: it was.
    """
    used = _token(token, asks_for_token)
    if datasets is not None and not datasets.is_dir():
        raise BadInput(f"--datasets {datasets}: no such folder")
    with _listening(host, port) as listening, _ends_like_ctrl_c():
        _serve(listening, used, token is None, datasets, allows_sql)
    raise Interrupted("the service has ended")


def _serve(
    listening: socket.socket,
    token: str | None,
    is_new: bool,
    datasets: Path | None,
    allows_sql: bool,
) -> None:
    try:
        from pipelines.service.admission import FORECASTING
        from pipelines.service.app import service
        from pipelines.service.asked import Answers
        from pipelines.service.checker import Checker
        from pipelines.service.collector import Collector
        from pipelines.service.engine import Engine
        from pipelines.service.server import Server
    except ImportError as error:
        raise MissingTool(f"{error}; `make setup` installs what the service needs") from None

    collector, checker = Collector(), Checker(datasets, _TRAINING_MINUTES)
    engine = Engine(PublishedHistory(home()))
    answers = Answers()
    app = service(engine, collector, checker, token, answers=answers, allows_sql=allows_sql)

    _announce(listening, token if is_new else None)
    try:
        # Nodes that wait are told of the end, else it would wait for them.
        Server(app, collector.close).run([listening])
    except KeyboardInterrupt:
        pass
    finally:
        checker.close()
        answers.close()
        if any(thread.name == FORECASTING for thread in threading.enumerate()):
            # Libraries that still compute in a thread may not survive what Python does at its end.
            atexit.register(os._exit, Interrupted.exit_code)


def _announce(listening: socket.socket, new_token: str | None) -> None:
    host, port, *_ = listening.getsockname()
    shown = f"[{host}]" if ":" in host else host
    tell(f"http://{shown}:{port}/ is the page, /docs describes the interface; Ctrl-C ends it")
    if new_token is not None:
        tell(f"token: {new_token}")


def _token(given: str | None, asks_for_token: bool) -> str | None:
    """Return what requests have to carry.

    Raises:
        BadInput: it is none, or there is one that nobody shall be asked for.
    """
    if not asks_for_token:
        if given is not None:
            raise BadInput("--no-token lets anybody ask, and there is a token: leave out one")
        return None
    return secrets.token_urlsafe(24) if given is None else _checked(given)


def _checked(token: str) -> str:
    """Return a token.

    Raises:
        BadInput: nobody could send it, or anybody guess it; the message does not tell it.
    """
    if not _TOKEN.fullmatch(token):
        raise BadInput("expected a token of 8 to 200 letters, digits and signs without blanks")
    return token


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        BadInput: the address is taken, or none of this machine's.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        raise BadInput(
            f"cannot listen to {host}:{port} ({error}); choose another with --address and --port"
        ) from None


@contextmanager
def _ends_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def join(url: str, node_type: str, link_mbps: float | None, token: str | None) -> None:
    """Register this machine until it is interrupted.

    Raises:
        BadInput: the service refuses it, or the token is none.
        Unreachable: no service answers.
        Interrupted: the user stopped it; it has left.
    """
    from pipelines.service.node import Membership, measure_node, own_name
    from profilers.steady.hostlock import host_lock

    own = checked_name(own_name(), "node")
    checked_name(node_type, "node type")
    used = None if token is None else _checked(token)
    try:
        with _ends_like_ctrl_c(), Membership(url, own, used) as membership:
            tell(f"{own}: measuring what it can do")
            with host_lock(tell):
                report = measure_node(node_type, link_mbps)
            membership.tell(report)
            tell(
                f"{own}: {report.dense_flops / 1e9:.1f} GFLOP/s, memory "
                f"{report.memory_Bps / 1e9:.1f} GB/s; registered with {url}, Ctrl-C leaves"
            )
            membership.stay(report)
    except KeyboardInterrupt:
        raise Interrupted(f"{own} has left {url}") from None
