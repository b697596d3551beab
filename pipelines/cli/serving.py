"""What `stepcast serve`, `node join` and `embedder train` do."""

import secrets
import socket
from pathlib import Path

import typer

from pipelines.cli.errors import Interrupted
from warehouse.home import home
from warehouse.names import checked_name
from warehouse.warehouse import Warehouse


def serve(
    host: str,
    port: int,
    token: str | None,
    asks_for_token: bool,
    datasets: Path | None,
    minutes: float,
) -> None:
    """Serve until it is interrupted."""
    import uvicorn

    from pipelines.service.app import service
    from pipelines.service.checker import Checker
    from pipelines.service.collector import Collector
    from pipelines.service.engine import Engine

    used = (token or secrets.token_urlsafe(24)) if asks_for_token else None
    checker = Checker(datasets, minutes)
    app = service(Engine(Warehouse(home())), Collector(), checker, used)
    typer.echo(f"http://{host}:{port}/docs describes the service; Ctrl-C ends it", err=True)
    if used is not None and token is None:
        typer.echo(f"token: {used}", err=True)
    try:
        uvicorn.run(app, host=host, port=port, log_level="warning")
    finally:
        checker.close()


def join(
    url: str, node_type: str, name: str | None, link_mbps: float | None, token: str | None
) -> None:
    """Register this machine until it is interrupted.

    Raises:
        Interrupted: the user stopped it; it has left.
    """
    from pipelines.service.node import Membership, measured

    own = checked_name(name or socket.gethostname(), "node")
    typer.echo(f"{own}: measuring what it can do", err=True)
    report = measured(checked_name(node_type, "node type"), link_mbps)
    try:
        with Membership(url, own, token) as membership:
            typer.echo(
                f"{own}: {report.dense_flops / 1e9:.1f} GFLOP/s, memory "
                f"{report.memory_Bps / 1e9:.1f} GB/s; registered with {url}",
                err=True,
            )
            membership.stay(report)
    except KeyboardInterrupt:
        raise Interrupted(f"{own} has left {url}") from None


def train(
    dataset: str, minutes: float, source: Path | None, networks: int, seed: int
) -> None:
    """Train an embedder, and print what it came to.

    Raises:
        Interrupted: the user stopped it.
    """
    from forecasting import embedders
    from profilers.steady.hostlock import host_lock

    try:
        with host_lock(_tell):
            found = embedders.train(
                dataset, minutes=minutes, source=source, seed=seed, networks=networks, say=_tell
            )
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped; `stepcast embedder train {dataset} --minutes {minutes:g}` goes on"
        ) from None
    typer.echo(
        f"{found.iterations:,} iterations in {found.seconds / 60:.0f} min; loss of "
        f"{found.networks} networks that were never drawn: {found.predicted:.3f} with predicted "
        f"weights, {found.random:.3f} with random ones, less by {found.low:.3f} to "
        f"{found.high:.3f} (95 %), for {found.better:.0%} of them"
    )
    typer.echo(str(found.path))


def _tell(text: str) -> None:
    typer.echo(text, err=True)
