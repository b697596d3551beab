"""`stepcast load`: bring landed runs into the warehouse."""

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from assets.home import home
from warehouse.durable import remove, temporary
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
        typer.echo(f"copied {_copy(folder, warehouse.landing)} runs from {folder}")
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
        raise BadInput(f"{'; '.join(lines)}; see {report.quarantined[0].folder.parent}")


def _copy(source: Path, landing: Path) -> int:
    """Copy the runs that `landing` lacks, each whole or not at all, and return how many."""
    if not source.is_dir():
        raise BadInput(f"{source} is not a folder; expected one folder per landed run in it")
    new = [folder for folder in run_folders(source) if not (landing / folder.name).exists()]
    landing.mkdir(parents=True, exist_ok=True)
    for folder in new:
        fresh = temporary(landing)
        try:
            shutil.copytree(folder, fresh)
            os.rename(fresh, landing / folder.name)
        finally:
            remove(fresh)
    return len(new)
