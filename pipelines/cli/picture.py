"""The pictures and pages that commands write."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from warehouse.records import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_picture(path: Path | None) -> None:
    """Refuse the name of a picture that says a format which we do not write; None: there is none.

    Raises:
        BadInput: it ends in neither .png nor .svg.
    """
    if path is not None and path.suffix not in (".png", ".svg"):
        raise BadInput(f"--picture {path}: expected a name that ends in .png or .svg")


def write_picture(path: Path | None, draw: Callable[[], "Figure"], *, told: bool = True) -> None:
    """Draw a picture if it is asked for, write it, and print its path if that is to be told.

    Raises:
        BadInput: it cannot be written.
    """
    if path is None:
        return
    from reports import plots

    figure = draw()
    svg = path.suffix == ".svg"
    _write(path, plots.to_svg(figure).encode() if svg else plots.to_png(figure, dpi=120), told)


def write_page(path: Path, page: str, *, told: bool = True) -> None:
    """Write a page, and print its path if that is to be told.

    Raises:
        BadInput: it cannot be written.
    """
    _write(path, page.encode(), told)


def _write(path: Path, content: bytes, told: bool) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    if told:
        typer.echo(path)
