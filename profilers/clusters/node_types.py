"""Node types by name: emulated ones (ours, and of the home), and those of the fleet file."""

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pydantic import Field, ValidationError

from profilers.clusters.fleet import FleetType, fleet, has_fleet
from profilers.record_file import fault
from profilers.steady.host import instruction_sets
from warehouse.documents import read_document
from warehouse.home import home
from warehouse.names import checked_name
from warehouse.records import BadInput, NodeGroup, Record, Role

ISA_ORDER = ("SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_VNNI")


class NodeType(Record):
    """A kind of machine: `cpu_share` in cores (None: all), `isa` the oneDNN cap (None: native).

    `core_gflops`: the share is of a core that multiplies small float32 matrices that fast, and does
    everything else accordingly (`profilers.steady.pacing`), whatever the host's do at the moment
    (None: of the host's). `usd_per_hour`: None: not declared.

    With a single inter-op thread, chance at start-up decides whether a gradient is sent at once or
    behind the rest of the backward pass, and starts of one job differ by a tenth in throughput;
    with a few they agree within two percent.
    """

    bandwidth_mbps: float = Field(gt=0, allow_inf_nan=False)
    cpu_share: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    threads: int = Field(default=1, ge=1)
    inter_op_threads: int = Field(default=4, ge=1)
    isa: str | None = None
    memory_bytes: int | None = Field(default=None, gt=0)
    core_gflops: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    usd_per_hour: float | None = Field(default=None, ge=0, allow_inf_nan=False)


GPU = "gpu."
"""How types of nodes with GPUs are called: steps on them tell nothing of processors."""
OWN = "node-types.yaml"
"""The file of a home that lists node types of one's own, in the form of ours."""


def node_types() -> dict[str, NodeType]:
    """All emulated node types by name: ours, and those of the home.

    Raises:
        BadInput: the home's file is wrong, or has a name of ours.
    """
    ours, path = _ours(), home() / OWN
    if not path.is_file():
        return ours
    theirs = _read(path, path.stat().st_mtime_ns)
    if both := sorted(ours.keys() & theirs.keys()):
        raise BadInput(f"{path}: {both[0]} is the name of a node type of Stepcast; choose another")
    return {**ours, **theirs}


@cache
def _ours() -> dict[str, NodeType]:
    return _read(Path(__file__).parent / "node_types.yaml", 0)


@cache
def _read(path: Path, modified_ns: int) -> dict[str, NodeType]:
    listed = read_document(path, "node types")
    if not isinstance(listed, dict):
        raise BadInput(f"{path}: expected a mapping of names to node types, found {listed!r:.60}")
    found = {}
    for name, fields in listed.items():
        try:
            found[checked_name(str(name), "node type")] = NodeType.model_validate(fields)
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None
        except ValidationError as error:
            raise BadInput(f"{path}: {fault(error, NodeType, (str(name),))}") from None
    return found


def fleet_types() -> dict[str, FleetType]:
    """All node types of the fleet file by name; none where there is no such file."""
    return fleet().node_types if has_fleet() else {}


def node_group(role: Role, name: str, count: int) -> NodeGroup:
    """Return `count` nodes of the named type.

    Raises:
        BadInput: there is no such type.
    """
    known, others = node_types(), fleet_types()
    if name in others:
        return NodeGroup(role=role, node_type=name, count=count, **others[name].model_dump())
    if name not in known:
        near = difflib.get_close_matches(name, [*known, *others], n=3) or sorted(known)
        raise BadInput(f"unknown node type {name!r}; did you mean {', '.join(near)}?")
    kind = known[name]
    return NodeGroup(
        role=role,
        node_type=name,
        count=count,
        cpu_share=kind.cpu_share,
        threads=kind.threads,
        inter_op_threads=kind.inter_op_threads,
        isa=kind.isa,
        memory_bytes=kind.memory_bytes,
        core_gflops=kind.core_gflops,
    )


def declared_usd_per_hour(groups: Iterable[NodeGroup]) -> float | None:
    """Return what nodes cost an hour by the prices that node types declare.

    None where there are no nodes, or the type of some declares none: its provider tells.
    """
    known, total = node_types(), 0.0
    for group in groups:
        kind = known.get(group.node_type)
        if kind is None or kind.usd_per_hour is None:
            return None
        total += group.count * kind.usd_per_hour
    return round(total, 9) or None


def check_isa(group: NodeGroup) -> None:
    """Refuse a node type whose instruction set this host lacks.

    Raises:
        BadInput: the type asks for more than the host's CPU can do.
    """
    if group.isa is not None and group.isa not in instruction_sets():
        raise BadInput(
            f"node type {group.node_type!r} needs {group.isa}, but this host's CPU offers "
            f"{', '.join(instruction_sets()) or 'none of ' + ', '.join(ISA_ORDER)}; "
            "`stepcast node-types` lists others"
        )
