"""How variables are divided among servers (section 5, Fig. 23 of the ICPE'20 paper)."""

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.replaced import variable_bytes
from networks.placement import held_bytes
from reports import study_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.wording import share
from studies import landed
from studies.parts import Part
from studies.rounds import Round
from warehouse.records import BadInput, Placement

SERVERS = (2, 3)
_HEAD = ("network", "variables", "servers", "placement", "fullest server", "share of the fullest")


def section(round_: Round, landing: Path, models: Mapping[Part, AsyncSGD]) -> str:
    """Return the bytes on each of several servers, network by network; nothing without a trace."""
    rows, figures = [], []
    for dnn, sizes_bytes in _variables(round_, landing, models).items():
        held: dict[str, tuple[int, ...]] = {}
        for servers in SERVERS:
            for placement in get_args(Placement):
                bytes_ = held_bytes(sizes_bytes, servers, placement)
                name = placement.replace("_", " ")
                held[f"M={servers}, {name}"] = (*bytes_, *[0] * (max(SERVERS) - servers))
                rows.append(_row(dnn, len(sizes_bytes), name, bytes_))
        described = f"Bytes of variables on each server, {dnn}"
        figures.append((dnn, captioned(study_plots.balance(held), described, "Variables alone.")))
    if not rows:
        return ""
    return (
        "<h2>Variables on several servers</h2>"
        "<p>In turn, as TensorFlow places them, and each on the server that holds fewest bytes so "
        "far. As transferred: what no step sends counts as none.</p>"
        f"{table(_HEAD, rows)}<p></p>{grid(figures)}"
    )


def _row(dnn: str, variables: int, placement: str, held: tuple[int, ...]) -> list[Cell]:
    fullest = max(held)
    return [
        Cell(dnn, is_number=False),
        Cell(str(variables)),
        Cell(str(len(held))),
        Cell(placement, is_number=False),
        Cell(f"{fullest / 1e6:.2f} MB"),
        Cell(share(fullest / sum(held) if sum(held) else None)),
    ]


def _variables(
    round_: Round, landing: Path, models: Mapping[Part, AsyncSGD]
) -> dict[str, tuple[int, ...]]:
    """Return the sizes of the variables of each network, from its first profile that has them."""
    found: dict[str, tuple[int, ...]] = {}
    for part, run in round_.runs_of("tf_trace").items():
        if part.curve.dnn not in found:
            operations, profile = landed.table(landing, run, "operation"), models[part].profile
            try:
                found[part.curve.dnn] = variable_bytes(profile, operations)
            except BadInput:
                continue
    return found
