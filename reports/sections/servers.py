"""How variables are divided among servers (section 5, Fig. 23 of the ICPE'20 paper)."""

from collections.abc import Sequence
from itertools import groupby

from forecasting.findings.servers import SERVERS, Placed
from reports import study_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.wording import share

_HEAD = ("network", "variables", "servers", "placement", "fullest server", "share of the fullest")


def section(placed: Sequence[Placed]) -> str:
    """Return the bytes on each of several servers, network by network; nothing without any."""
    if not placed:
        return ""
    figures = [
        (dnn, _figure(dnn, list(found))) for dnn, found in groupby(placed, lambda one: one.dnn)
    ]
    return (
        "<h2>How variables are divided among servers</h2>"
        "<p>In turn, as TensorFlow places them, and each on the server that holds fewest bytes so "
        "far. As transferred: what no step sends counts as none.</p>"
        f"{table(_HEAD, [_row(one) for one in placed])}<p></p>{grid(figures)}"
    )


def _figure(dnn: str, placed: Sequence[Placed]) -> str:
    most = max(SERVERS)
    held = {
        f"M={len(one.held_bytes)}, {_rule(one)}": (
            *one.held_bytes,
            *[0] * (most - len(one.held_bytes)),
        )
        for one in placed
    }
    described = f"Bytes of variables on each server, {dnn}"
    return captioned(study_plots.balance(held), described, "Variables alone.")


def _row(placed: Placed) -> list[Cell]:
    held, fullest = placed.held_bytes, max(placed.held_bytes)
    return [
        Cell(placed.dnn, is_number=False),
        Cell(str(placed.variables)),
        Cell(str(len(held))),
        Cell(_rule(placed), is_number=False),
        Cell(f"{fullest / 1e6:.2f} MB"),
        Cell(share(fullest / sum(held) if sum(held) else None)),
    ]


def _rule(placed: Placed) -> str:
    return placed.placement.replace("_", " ")
