"""`stepcast load`: bring landed runs into the warehouse."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from warehouse.copying import copy_run
from warehouse.home import home
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

    A run that cannot be loaded is set aside with its reason, and the others still load. Symbolic
    links in the folder are not followed: a run that holds one is not copied.

    Example: stepcast load /media/usb/landing
    """
    warehouse = Warehouse(home())
    refused: list[str] = []
    if folder is not None:
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a folder; expected one folder per landed run in it")
        refused = _copy(folder, warehouse.landing)
    report = warehouse.load()
    typer.echo(f"loaded {len(report.loaded)} runs, {report.unchanged} were there already")
    check_all_loaded(report, refused)


def _copy(folder: Path, landing: Path) -> list[str]:
    """Copy what can be copied, say how many that were, and return why each other run was not."""
    copied, refused = 0, []
    for one in run_folders(folder):
        try:
            copied += copy_run(folder, landing, one.name)
        except BadInput as error:
            refused.append(str(error))
    typer.echo(f"copied {copied} runs from {folder}")
    return refused


def check_all_loaded(report: LoadReport, refused: Sequence[str] = ()) -> None:
    """Say what was not copied, in the lines of `refused`, and what was set aside.

    Raises:
        BadInput: a run could not be copied or loaded; the others are.
    """
    lines = list(refused)
    if report.quarantined:
        lines += [f"{one.run_id} was set aside: {one.reason}" for one in report.quarantined]
        where = sorted({str(one.folder.parent) for one in report.quarantined})
        lines[-1] += f"; see {' and '.join(where)}"
        lines.append("to try one again, move its folder back to landing/ and run `stepcast load`")
    if lines:
        raise BadInput("; ".join(lines))
