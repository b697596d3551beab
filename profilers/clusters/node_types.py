"""Node types by name: ours, those of the home, and those of the fleet file."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from profilers.clusters.fleet import FleetType, find_fleet
from profilers.record_file import fault
from profilers.steady import host
from warehouse.documents import read_document
from warehouse.durable_files import write_text
from warehouse.fields import checked_name, nearest_names
from warehouse.home import home
from warehouse.records import BadInput, NodeGroup, Record, Role

ISA_ORDER = ("SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_VNNI")


class NodeType(Record):
    """A kind of machine: `cpu_share` in cores (None: all), `isa` the oneDNN cap (None: native).

    `core_gflops`: the share is of a core that multiplies small float32 matrices that fast, and does
    everything else accordingly (`profilers.steady.core_quota`), whatever the host does now
    (None: of the host's). `usd_per_hour`: None: not declared. `gpu`: words of the name that the
    driver gives each of its GPUs, `gpus` how many it has, and `gpu_link` what joins them.
    `memory_gib` and `vcpus` (virtual processors): of the machine, as its provider says; nothing
    enforces them. `efa`: it has the Elastic Fabric Adapter of EC2, over which NCCL needs no TCP.
    `processor`: its name, of the machine; hosts with the same one issue steps alike.

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
    gpu: str | None = Field(default=None, min_length=1)
    gpus: int = Field(default=1, ge=1)
    gpu_link: Literal["PCIe", "NVLink", "NVSwitch"] | None = None
    memory_gib: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    vcpus: int | None = Field(default=None, ge=1)
    efa: bool = False
    processor: str | None = Field(default=None, min_length=1)


GPU = "gpu."
"""How types of nodes with GPUs are called: steps on them tell nothing of processors."""
_OF_GPUS = ("float16", "tf32")
"""Precisions that processors do not train in."""
OWN = "node-types.yaml"
"""The file of a home that lists node types of one's own, in the form of ours."""
OBSERVED = "node-types.observed.yaml"
"""The same of instance types that we do not list, as their provider described them last."""
_OBSERVED_BY = f"""# Instance types as AWS describes them, by `stepcast prices collect`.
# What {OWN} says of one counts instead.
"""


_LOOKED: ContextVar[dict[str, NodeType] | None] = ContextVar("node types", default=None)


@contextmanager
def looking_once() -> Iterator[None]:
    """Look for node types once, not at each of the thousands of places of a block that ask."""
    before = _LOOKED.set(node_types())
    try:
        yield
    finally:
        _LOOKED.reset(before)


def node_types() -> dict[str, NodeType]:
    """All node types by name, but the fleet file's: ours, what was observed, and the home's own.

    Raises:
        BadInput: a file of the home is wrong, or its own has a name of ours.
    """
    if (looked := _LOOKED.get()) is not None:
        return looked
    shipped, path = shipped_node_types(), home() / OWN
    own_types, observed = _of_home(path), _of_home(home() / OBSERVED)
    if clashes := sorted(shipped.keys() & own_types.keys()):
        raise BadInput(
            f"{path}: {clashes[0]} is the name of a node type of Stepcast; choose another"
        )
    return {**observed, **shipped, **own_types} if observed or own_types else shipped


def keep_observed(observed: Mapping[str, NodeType], where: str) -> None:
    """Add instance types to those of the home.

    Args:
        observed: as their provider describes them. Ours stay as they are.
        where: the region and the day, for readers of the file.
    """
    shipped, path = shipped_node_types(), home() / OBSERVED
    fresh = {name: kind for name, kind in observed.items() if name not in shipped}
    if fresh:
        lines = path.read_text().splitlines() if path.is_file() else []
        kept = {line.partition(":")[0]: line for line in lines if not line.startswith("#")}
        for name, kind in fresh.items():
            fields = kind.model_dump(exclude_defaults=True)
            text = ", ".join(f"{field}: {_yaml(value)}" for field, value in fields.items())
            kept[name] = f"{name}: {{{text}}}  # {where}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, _OBSERVED_BY + "".join(f"{kept[name]}\n" for name in sorted(kept)))


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_home(path: Path) -> dict[str, NodeType]:
    try:
        modified_ns = os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return {}
    return _read(path, modified_ns)


@cache
def shipped_node_types() -> dict[str, NodeType]:
    """Node types of Stepcast alone, by name."""
    return _read(Path(__file__).parent / "node_types.yaml", 0)


@cache
def _read(path: Path, modified_ns: int) -> dict[str, NodeType]:
    listed = read_document(path, "node types")
    if not isinstance(listed, dict):
        raise BadInput(f"{path}: expected a mapping of names to node types, found {listed!r:.60}")
    types = {}
    for name, fields in listed.items():
        try:
            types[checked_name(str(name), "node type")] = NodeType.model_validate(fields)
        except BadInput as error:
            raise BadInput(f"{path}: {error}") from None
        except ValidationError as error:
            raise BadInput(f"{path}: {fault(error, NodeType, (str(name),))}") from None
    return types


def fleet_types() -> dict[str, FleetType]:
    """All node types of the fleet file by name; none where there is no such file."""
    fleet = find_fleet()
    return {} if fleet is None else fleet.node_types


def node_group(role: Role, name: str, count: int) -> NodeGroup:
    """Return `count` nodes of the named type.

    Raises:
        BadInput: there is no such type.
    """
    others, known = fleet_types(), node_types()
    kind = others.get(name) or known.get(name)
    if kind is None:
        near = _with_gpu(name, known) or nearest_names(name, [*known, *others])
        hint = f"did you mean {', '.join(near)}?" if near else "none here has a name like it;"
        raise BadInput(
            f"unknown node type {name!r}; {hint} `stepcast node-types` lists all, and "
            "docs/fleets.md says how to add yours"
        )
    fields = kind.model_dump(include=set(NodeGroup.model_fields))
    return NodeGroup(role=role, node_type=name, count=count, **fields)


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


def _with_gpu(name: str, known: Mapping[str, NodeType]) -> list[str]:
    """Return the first node type of each family that has the GPU which a name names."""

    def plain(text: str) -> str:
        return "".join(filter(str.isalnum, text.lower()))

    named = {kind.gpu for kind in known.values() if kind.gpu and plain(kind.gpu) in plain(name)}
    gpu = max(named, key=len, default=None)
    families: dict[str, str] = {}
    for other, kind in known.items():
        if gpu is not None and kind.gpu == gpu:
            families.setdefault(other.partition(".")[0], other)
    return list(families.values())[:3]


def gpus(name: str) -> int:
    """Return how many GPUs a node of a type has, by what it declares or by its name."""
    model, count = _declared_gpus(name)
    return count if name.startswith(GPU) or model is not None else 0


def lacks_precision(name: str, precision: str) -> str | None:
    """Return why nodes of a type do not train in a precision; None: they do."""
    if precision in _OF_GPUS and not gpus(name):
        return (
            f"{precision} is of GPUs, and {name} has none; on processors there are float32 and "
            "bfloat16"
        )
    return None


def mismatch(group: NodeGroup, hardware: Mapping[str, str]) -> str | None:
    """Return how a machine differs from what a node type declares; None: it does not.

    Args:
        group: nodes of the type.
        hardware: of the machine, as `profilers.steady.host.hardware` describes it. What it does not
            tell is not compared. Values of several machines stand between ` | `; each counts.
    """
    for offered in _values(hardware, "instruction_sets"):
        if group.isa is not None and group.isa not in offered.split():
            sets = ", ".join(offered.split()) or "none of " + ", ".join(ISA_ORDER)
            return f"needs {group.isa}, but its CPU offers {sets:.200}"
    for gib in _values(hardware, "memory_gib"):
        # Kernels keep some of a machine's memory, and whole GiB are told.
        if group.memory_bytes is not None and group.memory_bytes > (_number(gib) + 1) * 2**30:
            return f"needs {group.memory_bytes / 2**30:.1f} GiB of memory, but it has {gib:.20}"
    for cores in _values(hardware, "cores"):
        if group.cpu_share is not None and group.cpu_share > _number(cores):
            return f"needs {group.cpu_share:g} cores, but it has {cores:.20}"
    count, (model, _) = gpus(group.node_type), _declared_gpus(group.node_type)
    if not count or "cores" not in hardware:
        return None
    for names in _values(hardware, "gpu") or [""]:
        models = [name.strip() for name in names.split(",") if name.strip()]
        like = [name for name in models if model is None or _words(model) <= _words(name)]
        if len(like) < count:
            wanted = f"{count} GPU{'' if count == 1 else 's'}{f' {model}' if model else ''}"
            return f"needs {wanted}, but it has {', '.join(models)[:200] or 'none'}"
    return None


def check_host(group: NodeGroup) -> None:
    """Refuse a node type that this host cannot stand for.

    Raises:
        BadInput: the host lacks what the type declares.
    """
    if (differs := mismatch(group, host.hardware())) is not None:
        reason = differs.replace("its CPU", "this host's CPU").replace("it has", "this host has")
        raise BadInput(
            f"node type {group.node_type!r} {reason}; `stepcast node-types` lists others"
        )


def _values(hardware: Mapping[str, str], key: str) -> list[str]:
    return hardware[key].split(" | ") if key in hardware else []


def _number(text: str) -> float:
    """Return the number that a machine tells; what is none is nothing, for it is not trusted."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _declared_gpus(name: str) -> tuple[str | None, int]:
    """Return the model of a type's GPUs, if it declares one, and their number.

    A type of the fleet file that says nothing of GPUs has those of the catalogue.
    """
    kinds = fleet_types().get(name), node_types().get(name)
    gpu_kinds = (kind for kind in kinds if kind is not None and kind.gpu is not None)
    return next(((kind.gpu, kind.gpus) for kind in gpu_kinds), (None, 1))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))
