"""`stepcast load`: bring landed runs into the warehouse."""

from pathlib import Path
from typing import Annotated

import typer

from assets.home import home
from warehouse.copying import copy_runs
from warehouse.landing import run_folders
from warehouse.loader import LoadReport
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse


def load(
    folder: Annotated[
        Path | None, typer.Argument(help="Landed runs of another machine, to be copied first.")
    ] = None,
) -> None:
    """Load landed runs; loading a run twice changes nothing.

    A run that cannot be loaded is set aside with its reason, and the others still load.

    Example: stepcast load /media/usb/landing
    """
    warehouse = Warehouse(home())
    if folder is not None:
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a folder; expected one folder per landed run in it")
        names = [one.name for one in run_folders(folder)]
        typer.echo(f"copied {copy_runs(folder, warehouse.landing, names)} runs from {folder}")
    report = warehouse.load()
    typer.echo(f"loaded {len(report.loaded)} runs, {report.unchanged} were there already")
    check_all_loaded(report)


def check_all_loaded(report: LoadReport) -> None:
    """Say what was set aside.

    Raises:
        BadInput: a run could not be loaded; the others are.
    """
    if report.quarantined:
        lines = (f"{one.run_id} was set aside: {one.reason}" for one in report.quarantined)
        where = sorted({str(one.folder.parent) for one in report.quarantined})
        raise BadInput(
            f"{'; '.join(lines)}; see {' and '.join(where)}; to try one again, move its folder "
            "back to landing/ and run `stepcast load`"
        )
