"""`stepcast serve`: forecasts as a service, and this machine as a node of one."""

from pathlib import Path
from typing import Annotated

import typer

from warehouse.records import BadInput

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
    allow_sql: Annotated[
        bool,
        typer.Option("--allow-sql", help="Answer SELECT of one's own too, as `stepcast sql`."),
    ] = False,
    join: Annotated[
        str | None,
        typer.Option(help="Serve nothing; be a node of the service at this address."),
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
    from pipelines.cli import serve_job

    if join is None:
        if node_type or link_mbps:
            raise BadInput("--type and --link-mbps are of --join URL: give it too")
        serve_job.serve(address, port, token, not no_token, datasets, allow_sql)
        return
    if node_type is None:
        raise BadInput("--join: give --type, what such machines are called in the history")
    serve_job.join(join, node_type, link_mbps, token)
