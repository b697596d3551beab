"""`stepcast serve` and `stepcast node join`: forecasts as a service."""

from pathlib import Path
from typing import Annotated

import typer

node = typer.Typer(
    name="node",
    help="This machine as a node of a service's cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
LOCAL = "127.0.0.1"
TOKEN = "STEPCAST_TOKEN"
_Token = Annotated[
    str | None,
    typer.Option(envvar=TOKEN, help="Secret that requests carry in a header.", show_default=False),
]


def serve(
    address: Annotated[str, typer.Option(help="Where it listens.")] = LOCAL,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8791,
    token: _Token = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let anybody ask.")] = False,
    datasets: Annotated[
        Path | None, typer.Option(help="Folder with a folder for each type of dataset.")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="That training for a new type of dataset takes.")
    ] = 60,
) -> None:
    """Forecast workloads that are asked for over HTTP; /docs describes how.

    Listens to this machine alone unless --address says otherwise, and asks for a token: the one of
    --token, else a new one, which is printed.

    Example: stepcast serve --port 8791

    Example: curl -H "Authorization: Bearer $STEPCAST_TOKEN" localhost:8791/v1/cluster
    """
    from pipelines.cli import serve_job

    serve_job.serve(address, port, token, not no_token, datasets, minutes)


@node.command()
def join(
    url: Annotated[str, typer.Argument(help="The service's address: http://10.0.0.1:8791")],
    node_type: Annotated[str, typer.Option("--type", help="What it is called in the history.")],
    name: Annotated[
        str | None, typer.Option(help="Its name; else the host's and some digits.")
    ] = None,
    link_mbps: Annotated[float | None, typer.Option(min=0.001, help="Of its link.")] = None,
    token: _Token = None,
) -> None:
    """Measure what this machine can do, register, and tell how busy it is until Ctrl-C.

    Example: stepcast node join http://10.0.0.1:8791 --type lab.xeon --link-mbps 10000
    """
    from pipelines.cli import serve_job

    serve_job.join(url, node_type, name, link_mbps, token)
