"""Nodes of a PyTorch execution trace: which call an operator, with which tensors and arguments."""

import re
from dataclasses import dataclass
from typing import Any

import msgspec

from profilers.readers.bounded import MOST, Count, WholeNumber, as_json, clean
from profilers.readers.json_stream import check_depth, convert_value
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
            isinstance(one, str) and _TENSOR in one for one in types
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
            reads += (found := _tensors(value, kind, where))
            # A schema marks arguments that are written with (a!).
            written += found if "!" in text else []
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
    found: list[Tensor] = []
    level = convert_value(value, list[Any], where)
    for _ in range(limits.DEPTH):
        found += [convert_value(value, Tensor, where) for value in level if _is_tensor(value)]
        lists = (value for value in level if isinstance(value, list) and not _is_tensor(value))
        level = [inner for value in lists for inner in value]
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
    return [name.strip() for name in found if name.strip() not in ("*", "")]
