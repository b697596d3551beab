"""PyTorch execution traces (JSON, schemas 1.0 and 1.1) → operation, edge, operation_shape.

A trace lists every operator call of an iteration with its tensors, and no times. It is neither
`dnn` (which has parameters and batch size, that a trace does not name) nor a layer graph: it holds
the backward pass and the optimizer too. So a call is an operation, and a call that reads a tensor
waits for the last one that wrote it.

Calls nest: `aten::conv2d` calls `aten::convolution` calls `aten::cudnn_convolution` calls
`aten::empty`. The outermost are kept, with what they were given and returned; they cover all work
once. Leaves would not: the kernel of `aten::cudnn_convolution` is launched by a call that has
children. A kernel that a compiler wrote (Triton) has no schema that says what it writes: all its
tensors count as read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from profilers.readers.bounded import MOST, Count, LeftOut, Whole, as_json, clean
from profilers.readers.imported import Imported, Kept, Options
from profilers.readers.json_stream import Members, check_depth, of_kind
from warehouse import limits
from warehouse.records import BadInput

_OPERATOR = re.compile(r"(?!autograd::|profiler::)\w+::\w")
_TENSOR = "Tensor("
_STEP = "ProfilerStep#"
_SAID = ("schema", "pid", "time")
_SAID_CHARACTERS = 100
_SPLITS = re.compile(r"[()\[\],]")


class _Side(msgspec.Struct):
    """Inputs or outputs of a node."""

    values: list[Any]
    shapes: list[Any]
    types: list[str]


class _Attribute(msgspec.Struct):
    """A named value of a node in schema 1.1."""

    name: str
    value: Any = None


class _Numbered(msgspec.Struct):
    """The number of a node."""

    id: Whole


class _Node(_Numbered):
    """A node in the tree of calls; attributes are a list in schema 1.1, members in 1.0."""

    name: str
    ctrl_deps: Whole | None = None
    parent: Whole | None = None
    attrs: Any = None
    op_schema: str = ""


class _Called(_Node):
    """A node with inputs and outputs, whose shapes and types are members of it in schema 1.0."""

    inputs: _Side | list[Any] = []
    outputs: _Side | list[Any] = []
    input_shapes: list[Any] = []
    input_types: list[str] = []
    output_shapes: list[Any] = []
    output_types: list[str] = []


class _Tensor(msgspec.Struct, array_like=True, frozen=True):
    """A tensor as a trace names it; equal ones are the same tensor."""

    tensor: Whole
    storage: Whole
    offset: Whole
    elements: Count
    element_bytes: Count
    device: str

    @property
    def identity(self) -> tuple[int, ...]:
        return self.tensor, self.storage, self.offset, self.elements

    @property
    def size_bytes(self) -> int:
        return self.elements * self.element_bytes


@dataclass(frozen=True)
class _Call:
    """An outermost operator call; shapes and `arguments`, those that are no tensors, are JSON."""

    number: int
    name: str
    reads: tuple[_Tensor, ...]
    returns: tuple[_Tensor, ...]
    writes: tuple[_Tensor, ...]
    input_shapes: str
    output_shapes: str
    arguments: str
    is_kernel: bool


def read(path: Path, options: Options) -> Iterator[Imported]:
    """Yield one run.

    Reads the file twice, so that memory holds the tree of calls, and of the outermost the rest.

    Raises:
        BadInput: not JSON, a node that is none or is inside of itself, or no operator call in it.
    """
    said, left_out = dict[str, str](), LeftOut()
    outermost, steps = _outermost(path, said, left_out)
    calls = sorted(_calls(path, outermost), key=lambda one: one.number)
    if not calls:
        raise BadInput(
            f"{path}: no operator among its nodes; expected what "
            "torch.profiler.ExecutionTraceObserver writes (profiler traces have the format kineto)"
        )
    yield Imported(
        {"operation": _operations(calls), "edge": _edges(calls), "operation_shape": _shapes(calls)},
        said,
        left_out=left_out(),
        notes=tuple(_notes(steps, sum(call.is_kernel for call in calls))),
    )


def _notes(steps: int, kernels: int) -> Iterator[str]:
    if steps > 1:
        yield f"its {steps} steps (ProfilerStep) are one graph"
    if kernels:
        yield f"what {kernels:,} kernels without a schema write is not known: no edge begins there"


def _outermost(path: Path, said: dict[str, str], left_out: LeftOut) -> tuple[set[int], int]:
    """Return the ids of operator calls that no operator calls, and the number of steps.

    Fills `said` and `left_out` on the way. Left out are nodes with tensors that neither are
    operators nor are inside of one nor have one inside.
    """
    parents: dict[int, int] = {}
    operators: set[int] = set()
    others: dict[int, str] = {}
    steps = 0
    kept = Kept(path)
    members = Members(path, "nodes")
    for key, value in members:
        if key == "nodes":
            node = of_kind(value, _Node, members)
            parent = node.parent if node.ctrl_deps is None else node.ctrl_deps
            if parent is None:
                raise BadInput(f"{members}: node {node.id} has neither ctrl_deps nor parent")
            if node.id in parents:
                raise BadInput(f"{members}: node {node.id} is listed twice; is it one trace?")
            kept.event()
            parents[node.id] = parent
            if _is_operator(node, members):
                operators.add(node.id)
            elif _has_tensors(value):
                others[node.id] = clean(node.name[:_SAID_CHARACTERS])
            steps += node.name.startswith(_STEP)
        elif key in _SAID and isinstance(value, str | int | float):
            said[key] = clean(str(value)[:_SAID_CHARACTERS])
    below: dict[int, bool | None] = {}
    for number in parents:
        _find_below(number, parents, operators, below, path)
    above = _above(operators, parents)
    for number, name in others.items():
        if not below[number] and number not in above:
            left_out.add("calls without a schema", name)
    return {number for number in operators if not below[number]}, steps


def _above(operators: Iterable[int], parents: Mapping[int, int]) -> set[int]:
    """Return all nodes that have an operator inside."""
    above: set[int] = set()
    for number in operators:
        parent = parents[number]
        while parent in parents and parent not in above:
            above.add(parent)
            parent = parents[parent]
    return above


def _find_below(
    number: int,
    parents: Mapping[int, int],
    operators: set[int],
    below: dict[int, bool | None],
    path: Path,
) -> None:
    """Find out, for a node and its ancestors, whether an operator is above them.

    None in `below` marks those on the way up.
    """
    way = []
    while number not in below:
        parent = parents[number]
        if parent == number or parent not in parents:
            below[number] = False
            break
        below[number] = None
        way.append(number)
        number = parent
    if below[number] is None:
        raise BadInput(f"{path}: node {number} is inside of itself; is the trace whole?")
    for child in reversed(way):
        below[child] = parents[child] in operators or below[parents[child]]


def _is_operator(node: _Node, where: object) -> bool:
    """Return whether a node calls an operator, or a kernel that a compiler wrote (Triton)."""
    return bool(
        _OPERATOR.match(node.name)
        or _attribute(node, "op_schema", where)
        or _attribute(node, "kernel_backend", where)
    )


def _has_tensors(node: Any) -> bool:
    """Return whether a node that is no operator has tensors as inputs or outputs."""
    for side in ("input", "output"):
        values = node.get(f"{side}s")
        types = values.get("types") if isinstance(values, dict) else node.get(f"{side}_types")
        if isinstance(types, list) and any(
            isinstance(one, str) and _TENSOR in one for one in types
        ):
            return True
    return False


def _attribute(node: _Node, name: str, where: object) -> str:
    """Return a text among the attributes of a node, or nothing."""
    for one in of_kind(node.attrs or [], list[_Attribute], where):
        if one.name == name:
            if not isinstance(one.value, str):
                raise BadInput(f"{where}: the {name} of node {node.id} is no text")
            return one.value
    return node.op_schema if name == "op_schema" else ""


def _calls(path: Path, outermost: set[int]) -> Iterator[_Call]:
    kept = Kept(path)
    members = Members(path, "nodes")
    for key, value in members:
        if key == "nodes":
            if of_kind(value, _Numbered, members).id in outermost:
                call = _call(of_kind(value, _Called, members), members)
                for _ in (*call.reads, *call.writes):
                    kept.event()
                kept.text(call.name + call.input_shapes + call.output_shapes + call.arguments)
                yield call


def _call(node: _Called, where: object) -> _Call:
    inputs, outputs = (
        side if isinstance(side, _Side) else _Side(side, shapes, types)
        for side, shapes, types in (
            (node.inputs, node.input_shapes, node.input_types),
            (node.outputs, node.output_shapes, node.output_types),
        )
    )
    for side in (inputs, outputs):
        if len(side.values) != len(side.types):
            raise BadInput(
                f"{where}: node {node.id} has {len(side.values)} values and {len(side.types)} types"
            )
    schema = _attribute(node, "op_schema", where)
    declared = _arguments(schema)
    reads: list[_Tensor] = []
    written: list[_Tensor] = []
    others: dict[str, Any] = {}
    for i, (value, kind) in enumerate(zip(inputs.values, inputs.types, strict=True)):
        text = declared[i] if i < len(declared) else ""
        if _TENSOR in kind:
            reads += (found := _tensors(value, kind, where))
            # A schema marks arguments that are written with (a!).
            written += found if "!" in text else []
        elif value not in ("<None>", None):
            name = text.partition("=")[0].split()
            others[name[-1] if name else str(i)] = value
    returns = [
        one
        for value, kind in zip(outputs.values, outputs.types, strict=True)
        if _TENSOR in kind
        for one in _tensors(value, kind, where)
    ]
    for tensors in (reads, returns):
        if sum(one.size_bytes for one in tensors) > MOST:
            raise BadInput(f"{where}: node {node.id} has tensors of a size beyond 2^63 bytes")
    for shown in (inputs.shapes, outputs.shapes, others):
        check_depth(shown, where)
    return _Call(
        node.id,
        clean(node.name),
        tuple(reads),
        tuple(returns),
        (*written, *returns),
        as_json(inputs.shapes, where),
        as_json(outputs.shapes, where),
        as_json(others, where),
        not schema and bool(_attribute(node, "kernel_backend", where)),
    )


def _tensors(value: Any, kind: str, where: object) -> list[_Tensor]:
    """Return the tensors of a value; lists and tuples of them nest."""
    if kind.startswith(_TENSOR):
        return [of_kind(value, _Tensor, where)]
    found: list[_Tensor] = []
    level = of_kind(value, list[Any], where)
    for _ in range(limits.DEPTH):
        found += [of_kind(one, _Tensor, where) for one in level if _is_tensor(one)]
        lists = (one for one in level if isinstance(one, list) and not _is_tensor(one))
        level = [inner for one in lists for inner in one]
        if not level:
            return found
    raise BadInput(f"{where}: lists of tensors inside each other deeper than {limits.DEPTH}")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 6 and isinstance(value[5], str)


def _arguments(schema: str) -> list[str]:
    """Split the arguments of `aten::add_.Tensor(Tensor(a!) self, *, Scalar alpha=1) -> …`."""
    text = schema.partition("(")[2]
    depth, begins, found = 0, 0, list[str]()
    for mark in _SPLITS.finditer(text):
        depth += (mark[0] in "([") - (mark[0] in ")]")
        if depth < 0 or (mark[0] == "," and depth == 0):
            found.append(text[begins : mark.start()])
            begins = mark.end()
        if depth < 0:
            break
    else:
        found.append(text[begins:])
    return [one.strip() for one in found if one.strip() not in ("*", "")]


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
            "inputs": [call.input_shapes for call in calls],
            "outputs": [call.output_shapes for call in calls],
            "attributes": [call.arguments for call in calls],
        }
    )
