"""`stepcast import`: measurements that others made become runs of backend `imported`."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli.load import check_all_loaded
from pipelines.cli.tables import print_text
from warehouse.home import home
from warehouse.records import Purpose


def import_(
    format_name: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="nccl-tests, iperf3, pcap, kineto, execution-trace, runmetadata, chrome-timeline, "
            "csv.",
        ),
    ],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Files, gzipped or not.")],
    source: Annotated[str | None, typer.Option(help="Who measured it; a mapping may say.")] = None,
    licence: Annotated[str | None, typer.Option(help="Licence of the data.")] = None,
    url: Annotated[str | None, typer.Option(help="Where the file is from.")] = None,
    purpose: Annotated[
        Purpose, typer.Option(help="Whether fits may see it, or it judges predictions.")
    ] = "profile",
    mapping: Annotated[
        Path | None, typer.Option(help="csv: the columns; else the mapping of the file's name.")
    ] = None,
    world_size: Annotated[
        int | None, typer.Option(min=1, help="nccl-tests: ranks, where the log does not say.")
    ] = None,
) -> None:
    """Bring measurements of others into the history, with their source.

    They are runs of backend `imported`, never mixed with our own. What is kept of each format is
    in docs/import.md. Importing a file twice changes nothing.

    Example: stepcast import nccl-tests run1.log run2.log --source "our cluster, May 2026"
    """
    from pipelines.importing import Provenance, import_file, staged
    from profilers.readers.formats import named
    from profilers.readers.imported import Options
    from warehouse.warehouse import Warehouse

    options = Options(world_size=world_size, mapping=mapping)
    named(format_name, options)
    warehouse = Warehouse(home())
    with staged(warehouse.landing) as staging:
        given = Provenance(source=source, licence=licence, url=url)
        lines = [import_file(path, format_name, options, given, purpose, staging) for path in paths]
    check_all_loaded(warehouse.load())
    for line in lines:
        print_text(line)
