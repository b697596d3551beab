"""PyTorch execution traces (JSON, schemas 1.0 and 1.1) → operation, edge, operation_shape.

A trace lists every operator call of an iteration with its tensors, and no times. It is neither
`dnn` (which has parameters and batch size, that a trace does not name) nor a layer graph: it holds
the backward pass and the optimizer too. So a call is an operation, and a call that reads a tensor
waits for the last one that wrote it.

Calls nest: `aten::conv2d` calls `aten::convolution` calls `aten::cudnn_convolution` calls
`aten::empty`. The outermost are kept, with what they were given and returned; they cover all work
once. Leaves would not: the kernel of `aten::cudnn_convolution` is launched by a call that has
children.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from profilers.readers.imported import Imported, Options
from profilers.readers.json_stream import Members
from warehouse.records import BadInput

_OPERATOR = re.compile(r"(?!autograd::|profiler::)\w+::\w")
_TENSOR = "Tensor("
_SAID = ("schema", "pid", "time")


@dataclass(frozen=True)
class _Tensor:
    """A tensor as a trace names it; equal ones are the same tensor."""

    identity: tuple[int, ...]
    size_bytes: int
    device: str


@dataclass(frozen=True)
class _Call:
    """An outermost operator call; `arguments` are those that are no tensors."""

    number: int
    name: str
    reads: tuple[_Tensor, ...]
    returns: tuple[_Tensor, ...]
    writes: tuple[_Tensor, ...]
    input_shapes: Any
    output_shapes: Any
    arguments: Mapping[str, Any]


def read(path: Path, options: Options) -> Iterator[Imported]:
    """Yield one run.

    Reads the file twice, so that memory holds the tree of calls, and of the outermost the rest.

    Raises:
        BadInput: not JSON, or no operator call in it.
    """
    about: dict[str, Any] = {}
    try:
        outermost = _outermost(path, about)
        nodes = (node for key, node in Members(path, "nodes") if key == "nodes")
        calls = sorted(
            (_call(node) for node in nodes if node["id"] in outermost), key=lambda one: one.number
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BadInput(
            f"{path}: a node's {error} is missing or of another kind; expected what "
            "torch.profiler.ExecutionTraceObserver writes"
        ) from None
    if not calls:
        raise BadInput(
            f"{path}: no operator among its nodes; expected what "
            "torch.profiler.ExecutionTraceObserver writes (profiler traces have the format kineto)"
        )
    said = {key: str(about[key]) for key in _SAID if key in about}
    yield Imported(
        {"operation": _operations(calls), "edge": _edges(calls), "operation_shape": _shapes(calls)},
        said,
    )


def _outermost(path: Path, about: dict[str, Any]) -> set[int]:
    """Return the ids of operator calls that no operator calls; fill `about` on the way."""
    parents: dict[int, int] = {}
    operators: set[int] = set()
    for key, node in Members(path, "nodes"):
        if key != "nodes":
            about[key] = node
            continue
        parents[node["id"]] = node["ctrl_deps"] if "ctrl_deps" in node else node["parent"]
        if _attributes(node).get("op_schema") or _OPERATOR.match(node["name"]):
            operators.add(node["id"])
    below: dict[int, bool] = {}
    for number in parents:
        _is_below(number, parents, operators, below)
    return {number for number in operators if not below[number]}


def _is_below(
    number: int, parents: Mapping[int, int], operators: set[int], below: dict[int, bool]
) -> None:
    """Find out, for a node and its ancestors, whether an operator is above them."""
    path = []
    while number not in below:
        path.append(number)
        parent = parents.get(number, number)
        if parent == number or parent not in parents:
            below[number] = False
            break
        number = parent
    for child in reversed(path):
        if child not in below:
            parent = parents[child]
            below[child] = parent in operators or below[parent]


def _attributes(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's attributes: a list of named values in schema 1.1, members in 1.0."""
    if "attrs" in node:
        return {one["name"]: one["value"] for one in node["attrs"]}
    return {"op_schema": node.get("op_schema", "")}


def _values(node: Mapping[str, Any], side: str) -> tuple[list[Any], Any, list[str]]:
    """Return values, shapes and types of `inputs` or `outputs`."""
    found = node[f"{side}s"]
    if isinstance(found, dict):
        return found["values"], found["shapes"], found["types"]
    return found, node[f"{side}_shapes"], node[f"{side}_types"]


def _call(node: Mapping[str, Any]) -> _Call:
    inputs, input_shapes, input_types = _values(node, "input")
    outputs, output_shapes, output_types = _values(node, "output")
    declared = _arguments(str(_attributes(node).get("op_schema", "")))
    reads: list[_Tensor] = []
    written: list[_Tensor] = []
    others: dict[str, Any] = {}
    for i, (value, kind) in enumerate(zip(inputs, input_types, strict=True)):
        text = declared[i] if i < len(declared) else ""
        if _TENSOR in kind:
            reads += (found := list(_tensors(value, kind)))
            # A schema marks arguments that are written with (a!).
            written += found if "!" in text else []
        elif value not in ("<None>", None):
            name = text.partition("=")[0].split()
            others[name[-1] if name else str(i)] = value
    returns = [
        one
        for value, kind in zip(outputs, output_types, strict=True)
        if _TENSOR in kind
        for one in _tensors(value, kind)
    ]
    return _Call(
        node["id"],
        node["name"],
        tuple(reads),
        tuple(returns),
        (*written, *returns),
        input_shapes,
        output_shapes,
        others,
    )


def _tensors(value: Any, kind: str) -> Iterator[_Tensor]:
    """Yield the tensors of a value; lists and tuples of them nest."""
    if kind.startswith(_TENSOR):
        *identity, elements, element_bytes, device = value
        yield _Tensor((*identity, elements), elements * element_bytes, device)
    else:
        for one in value:
            if _is_tensor(one):
                yield from _tensors(one, _TENSOR)
            elif isinstance(one, list):
                yield from _tensors(one, kind)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 6 and isinstance(value[5], str)


def _arguments(schema: str) -> list[str]:
    """Split the arguments of `aten::add_.Tensor(Tensor(a!) self, *, Scalar alpha=1) -> …`."""
    depth, found = 0, [""]
    for character in schema.partition("(")[2]:
        depth += (character in "([") - (character in ")]")
        if depth < 0:
            break
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return [text.strip() for text in found if text.strip() not in ("*", "")]


def _operations(calls: Sequence[_Call]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "operation": range(len(calls)),
            "name": [f"{call.name}#{call.number}" for call in calls],
            "type": [call.name for call in calls],
            "resource": ["worker"] * len(calls),
            "device": [_device(call) for call in calls],
            "input_bytes": [sum(one.size_bytes for one in call.reads) for call in calls],
            "output_bytes": [sum(one.size_bytes for one in call.returns) for call in calls],
        },
        schema_overrides={"device": pl.String},
    )


def _device(call: _Call) -> str | None:
    """Return gpu if a tensor of the call is there, host if all are on the CPU."""
    devices = {one.device.partition(":")[0] for one in (*call.reads, *call.returns)}
    if "cuda" in devices:
        return "gpu"
    return "host" if devices == {"cpu"} else None


def _edges(calls: Sequence[_Call]) -> pl.DataFrame:
    writer: dict[tuple[int, ...], int] = {}
    edges: set[tuple[int, int]] = set()
    for target, call in enumerate(calls):
        sources = {writer.get(one.identity) for one in call.reads}
        edges |= {(source, target) for source in sources if source is not None}
        writer |= {one.identity: target for one in call.writes}
    return pl.DataFrame(
        sorted(edges), schema={"source": pl.Int32, "target": pl.Int32}, orient="row"
    )


def _shapes(calls: Sequence[_Call]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "operation": range(len(calls)),
            "inputs": [json.dumps(call.input_shapes) for call in calls],
            "outputs": [json.dumps(call.output_shapes) for call in calls],
            "attributes": [json.dumps(call.arguments) for call in calls],
        }
    )
