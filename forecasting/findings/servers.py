"""How variables are divided among servers (section 5, Fig. 23 of the ICPE'20 paper)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.replaced import variable_bytes
from networks.placement import held_bytes
from profilers.probe import Need
from studies import landed
from studies.rounds import Round
from warehouse.records import BadInput, Placement

SERVERS = (2, 3)


@dataclass(frozen=True)
class Placed:
    """The variables of a network on several servers: how many, and the bytes of each server."""

    dnn: str
    variables: int
    placement: Placement
    held_bytes: tuple[int, ...]


def servers(round_: Round, landing: Path, models: Mapping[Need, AsyncSGD]) -> tuple[Placed, ...]:
    """Return the bytes on each of `SERVERS`, by every rule, network by network."""
    placements: tuple[Placement, ...] = get_args(Placement)
    return tuple(
        Placed(dnn, len(sizes_bytes), placement, held_bytes(sizes_bytes, count, placement))
        for dnn, sizes_bytes in _variables(round_, landing, models).items()
        for count in SERVERS
        for placement in placements
    )


def _variables(
    round_: Round, landing: Path, models: Mapping[Need, AsyncSGD]
) -> dict[str, tuple[int, ...]]:
    """Return the sizes of the variables of each network, from its first profile that has them."""
    found: dict[str, tuple[int, ...]] = {}
    for need, run in round_.runs_of("tf_trace").items():
        if need.scenario.workload.dnn not in found:
            operations, profile = landed.table(landing, run, "operation"), models[need].profile
            try:
                found[need.scenario.workload.dnn] = variable_bytes(profile, operations)
            except BadInput:
                continue
    return found
