"""`stepcast serve`: forecasts as a service, and this machine as a node of one."""

import atexit
import os
import re
import secrets
import socket
import threading
from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.errors import Interrupted, interruptible
from pipelines.cli.money import exit_on_signals
from pipelines.cli.tables import tell
from warehouse.fields import checked_name
from warehouse.history import PublishedHistory
from warehouse.home import home
from warehouse.records import BadInput, MissingTool, error_context

LOCAL = "127.0.0.1"
TOKEN = "STEPCAST_TOKEN"
_TokenOption = Annotated[
    str | None,
    typer.Option(envvar=TOKEN, help="Secret that requests carry in a header.", show_default=False),
]
_TOKEN = re.compile(r"[!-~]{8,200}")
_TRAINING_MINUTES = 60.0
"""That training for a new type of dataset takes."""


def serve(
    address: Annotated[str, typer.Option(help="Where it listens.")] = LOCAL,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8791,
    token: _TokenOption = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let anybody ask.")] = False,
    datasets: Annotated[
        Path | None, typer.Option(help="Folder with TYPE.npz of each type of dataset.")
    ] = None,
    allow_sql: Annotated[
        bool, typer.Option("--allow-sql", help="Answer SELECT of one's own too, as `stepcast sql`.")
    ] = False,
    join: Annotated[
        str | None, typer.Option(help="Serve nothing; be a node of the service at this address.")
    ] = None,
    node_type: Annotated[
        str | None, typer.Option("--type", help="With --join: what this machine is called.")
    ] = None,
    link_mbps: Annotated[
        float | None, typer.Option(min=0.001, help="With --join: speed of its link.")
    ] = None,
) -> None:
    """Forecast workloads that are asked for over HTTP.

    Listens to this machine alone unless --address says otherwise, and asks for a token: the one of
    --token, else a new one, which is printed.

    Example: stepcast serve --port 8791

    With --join this machine is measured, registers with a service, and tells how busy it is until
    Ctrl-C.

    Example: stepcast serve --join http://10.0.0.1:8791 --type lab.xeon --link-mbps 10000

    Example: curl -H "Authorization: Bearer $STEPCAST_TOKEN" localhost:8791/v1/cluster
    """
    if join is not None:
        if node_type is None:
            raise BadInput("--join: give --type, what such machines are called in the history")
        _join(join, node_type, link_mbps, token)
        return
    if node_type or link_mbps:
        raise BadInput("--type and --link-mbps are of --join URL: give it too")
    if no_token and token is not None:
        raise BadInput("--no-token lets anybody ask, and there is a token: leave out one")
    is_new = token is None and not no_token
    used = secrets.token_urlsafe(24) if is_new else None if token is None else _checked(token)
    if datasets is not None and not datasets.is_dir():
        raise BadInput(f"--datasets {datasets}: no such folder")
    with _listening(address, port) as listening, exit_on_signals():
        _serve(listening, used, is_new, datasets, allow_sql)
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

    host, port, *_ = listening.getsockname()
    shown = f"[{host}]" if ":" in host else host
    tell(f"http://{shown}:{port}/ is the page, /docs describes the interface; Ctrl-C ends it")
    if is_new:
        tell(f"token: {token}")
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
    failure = f"cannot listen to {host}:{port}; choose another with --address and --port"
    with error_context(failure, OSError, UnicodeError):
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=1024)


def _join(url: str, node_type: str, link_mbps: float | None, token: str | None) -> None:
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
    with (
        interruptible(f"{own} has left {url}"),
        exit_on_signals(),
        Membership(url, own, used) as membership,
    ):
        tell(f"{own}: measuring what it can do")
        with host_lock(tell):
            report = measure_node(node_type, link_mbps)
        membership.tell(report)
        tell(
            f"{own}: {report.dense_flops / 1e9:.1f} GFLOP/s, memory "
            f"{report.memory_Bps / 1e9:.1f} GB/s; registered with {url}, Ctrl-C leaves"
        )
        membership.stay(report)
