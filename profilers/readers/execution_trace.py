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

from profilers.readers.contract import (
    MOST,
    Count,
    ImportedRun,
    MemoryCounter,
    OmissionCounter,
    ReaderOptions,
    WholeNumber,
    as_json,
    clean,
)
from profilers.readers.json_stream import Members, check_depth, convert_value
from warehouse import limits
from warehouse.records import BadInput

_OPERATOR = re.compile(r"(?!(?:torch::)?autograd::|profiler::|torch::distributed::)\w+::\w")
_TENSOR = "Tensor("
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


class NumberedNode(msgspec.Struct):
    """The number of a node."""

    id: WholeNumber


class CallTreeNode(NumberedNode):
    """A node in the tree of calls; attributes are a list in schema 1.1, members in 1.0."""

    name: str
    ctrl_deps: WholeNumber | None = None
    parent: WholeNumber | None = None
    attrs: Any = None
    op_schema: str = ""


class TensorNode(CallTreeNode):
    """A node with inputs and outputs, whose shapes and types are members of it in schema 1.0."""

    inputs: _Side | list[Any] = []
    outputs: _Side | list[Any] = []
    input_shapes: list[Any] = []
    input_types: list[str] = []
    output_shapes: list[Any] = []
    output_types: list[str] = []


class Tensor(msgspec.Struct, array_like=True, frozen=True):
    """A tensor as a trace names it; equal ones are the same tensor."""

    tensor: WholeNumber
    storage: WholeNumber
    offset: WholeNumber
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
class OperatorCall:
    """An outermost operator call; shapes and `arguments`, those that are no tensors, are JSON."""

    number: int
    name: str
    reads: tuple[Tensor, ...]
    returns: tuple[Tensor, ...]
    writes: tuple[Tensor, ...]
    input_shapes: str
    output_shapes: str
    arguments: str
    is_kernel: bool


def has_schema(node: CallTreeNode, where: object) -> bool:
    """Return whether a node calls an operator, or a kernel that a compiler wrote (Triton)."""
    return bool(_attribute(node, "op_schema", where) or _attribute(node, "kernel_backend", where))


def is_named_as_operator(node: CallTreeNode) -> bool:
    """Return whether a node has an operator's name, as nodes of autograd and DDP may have too."""
    return bool(_OPERATOR.match(node.name))


def has_tensors(node: Any) -> bool:
    """Return whether a node that is no operator has tensors as inputs or outputs."""
    for side in ("input", "output"):
        values = node.get(f"{side}s")
        types = values.get("types") if isinstance(values, dict) else node.get(f"{side}_types")
        if isinstance(types, list) and any(
            isinstance(kind, str) and _TENSOR in kind for kind in types
        ):
            return True
    return False


def _attribute(node: CallTreeNode, name: str, where: object) -> str:
    """Return a text among the attributes of a node, or nothing."""
    for attribute in convert_value(node.attrs or [], list[_Attribute], where):
        if attribute.name == name:
            if not isinstance(attribute.value, str):
                raise BadInput(f"{where}: the {name} of node {node.id} is no text")
            return attribute.value
    return node.op_schema if name == "op_schema" else ""


def call_of(node: TensorNode, where: object) -> OperatorCall:
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
    reads: list[Tensor] = []
    written: list[Tensor] = []
    others: dict[str, Any] = {}
    for i, (value, kind) in enumerate(zip(inputs.values, inputs.types, strict=True)):
        text = declared[i] if i < len(declared) else ""
        if _TENSOR in kind:
            reads += (of_value := _tensors(value, kind, where))
            # A schema marks arguments that are written with (a!).
            written += of_value if "!" in text else []
        elif value not in ("<None>", None):
            name = text.partition("=")[0].split()
            others[name[-1] if name else str(i)] = value
    returns = [
        tensor
        for value, kind in zip(outputs.values, outputs.types, strict=True)
        if _TENSOR in kind
        for tensor in _tensors(value, kind, where)
    ]
    for tensors in (reads, returns):
        if sum(tensor.size_bytes for tensor in tensors) > MOST:
            raise BadInput(f"{where}: node {node.id} has tensors of a size beyond 2^63 bytes")
    for shown in (inputs.shapes, outputs.shapes, others):
        check_depth(shown, where)
    return OperatorCall(
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


def _tensors(value: Any, kind: str, where: object) -> list[Tensor]:
    """Return the tensors of a value; lists and tuples of them nest."""
    if kind.startswith(_TENSOR):
        return [convert_value(value, Tensor, where)]
    tensors: list[Tensor] = []
    level = convert_value(value, list[Any], where)
    for _ in range(limits.DEPTH):
        tensors += [convert_value(value, Tensor, where) for value in level if _is_tensor(value)]
        lists = (value for value in level if isinstance(value, list) and not _is_tensor(value))
        level = [inner for value in lists for inner in value]
        if not level:
            return tensors
    raise BadInput(f"{where}: lists of tensors inside each other deeper than {limits.DEPTH}")


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 6 and isinstance(value[5], str)


def _arguments(schema: str) -> list[str]:
    """Split the arguments of `aten::add_.Tensor(Tensor(a!) self, *, Scalar alpha=1) -> …`."""
    text = schema.partition("(")[2]
    depth, begins, arguments = 0, 0, list[str]()
    for mark in _SPLITS.finditer(text):
        depth += (mark[0] in "([") - (mark[0] in ")]")
        if depth < 0 or (mark[0] == "," and depth == 0):
            arguments.append(text[begins : mark.start()])
            begins = mark.end()
        if depth < 0:
            break
    else:
        arguments.append(text[begins:])
    return [name.strip() for name in arguments if name.strip() not in ("*", "")]


_STEP = "ProfilerStep#"
_SAID = ("schema", "pid", "time")
_SAID_CHARACTERS = 100


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run.

    Reads the file twice, so that memory holds the tree of calls, and of the outermost the rest.

    Raises:
        BadInput: not JSON, a node that is none or is inside of itself, or no operator call in it.
    """
    config, left_out = dict[str, str](), OmissionCounter()
    outermost, steps = _outermost(path, config, left_out)
    calls = sorted(_calls(path, outermost), key=lambda call: call.number)
    if not calls:
        raise BadInput(
            f"{path}: no operator among its nodes; expected what "
            "torch.profiler.ExecutionTraceObserver writes (profiler traces have the format kineto)"
        )
    yield ImportedRun(
        {"operation": _operations(calls), "edge": _edges(calls), "operation_shape": _shapes(calls)},
        config,
        left_out=left_out(),
        notes=tuple(_notes(steps, sum(call.is_kernel for call in calls))),
    )


def _notes(steps: int, kernels: int) -> Iterator[str]:
    if steps > 1:
        yield f"its {steps} steps (ProfilerStep) are one graph"
    if kernels:
        yield f"what {kernels:,} kernels without a schema write is not known: no edge begins there"


def _outermost(
    path: Path, config: dict[str, str], left_out: OmissionCounter
) -> tuple[set[int], int]:
    """Return the ids of operator calls that no operator calls, and the number of steps.

    Fills `config` and `left_out` on the way. Left out are nodes with tensors that neither are
    operators nor are inside of one nor have one inside. Nodes of autograd and of DDP
    (`torch::autograd::AccumulateGrad`, `CppNode`) are named as operators are, but have no schema.
    """
    parents: dict[int, int] = {}
    operators: set[int] = set()
    named: set[int] = set()
    others: dict[int, str] = {}
    steps = 0
    kept = MemoryCounter(path)
    members = Members(path, "nodes")
    for key, value in members:
        if key == "nodes":
            node = convert_value(value, CallTreeNode, members)
            parent = node.parent if node.ctrl_deps is None else node.ctrl_deps
            if parent is None:
                raise BadInput(f"{members}: node {node.id} has neither ctrl_deps nor parent")
            if node.id in parents:
                raise BadInput(f"{members}: node {node.id} is listed twice; is it one trace?")
            kept.event()
            parents[node.id] = parent
            if has_schema(node, members):
                operators.add(node.id)
                continue
            if is_named_as_operator(node):
                named.add(node.id)
            if has_tensors(value):
                others[node.id] = clean(node.name[:_SAID_CHARACTERS])
            steps += node.name.startswith(_STEP)
        elif key in _SAID and isinstance(value, str | int | float):
            config[key] = clean(str(value)[:_SAID_CHARACTERS])
    # Where no node has a schema, it is an old trace: names have to tell.
    operators = operators or named
    below: dict[int, bool | None] = {}
    for number in parents:
        _find_below(number, parents, operators, below, path)
    above = _above(operators, parents)
    for number, name in others.items():
        if not below[number] and number not in above and number not in operators:
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


def _calls(path: Path, outermost: set[int]) -> Iterator[OperatorCall]:
    kept = MemoryCounter(path)
    members = Members(path, "nodes")
    for key, value in members:
        if key == "nodes":
            if convert_value(value, NumberedNode, members).id in outermost:
                call = call_of(convert_value(value, TensorNode, members), members)
                kept.event(len(call.reads) + len(call.writes))
                kept.text(call.name + call.input_shapes + call.output_shapes + call.arguments)
                yield call


def _operations(calls: Sequence[OperatorCall]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "operation": range(len(calls)),
            "name": [f"{call.name}#{call.number}" for call in calls],
            "type": [call.name for call in calls],
            "resource": ["worker"] * len(calls),
            "device": [_device(call) for call in calls],
            "input_bytes": [sum(tensor.size_bytes for tensor in call.reads) for call in calls],
            "output_bytes": [sum(tensor.size_bytes for tensor in call.returns) for call in calls],
        },
        schema_overrides={"device": pl.String},
    )


def _device(call: OperatorCall) -> str | None:
    """Return gpu if a tensor of the call is there, host if all are on the CPU."""
    devices = {tensor.device.partition(":")[0] for tensor in (*call.reads, *call.returns)}
    if "cuda" in devices:
        return "gpu"
    return "host" if devices == {"cpu"} else None


def _edges(calls: Sequence[OperatorCall]) -> pl.DataFrame:
    writer: dict[tuple[int, ...], int] = {}
    edges: set[tuple[int, int]] = set()
    for target, call in enumerate(calls):
        sources = {writer.get(tensor.identity) for tensor in call.reads}
        edges |= {(source, target) for source in sources if source is not None}
        writer |= {write.identity: target for write in call.writes}
    return pl.DataFrame(
        sorted(edges), schema={"source": pl.Int32, "target": pl.Int32}, orient="row"
    )


def _shapes(calls: Sequence[OperatorCall]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "operation": range(len(calls)),
            "inputs": [call.input_shapes for call in calls],
            "outputs": [call.output_shapes for call in calls],
            "attributes": [call.arguments for call in calls],
        }
    )
