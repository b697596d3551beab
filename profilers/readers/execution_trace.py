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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from profilers.readers.bounded import OmissionCounter, clean
from profilers.readers.contract import ImportedRun, MemoryCounter, ReaderOptions
from profilers.readers.execution_trace_nodes import (
    CallTreeNode,
    NumberedNode,
    OperatorCall,
    TensorNode,
    call_of,
    has_schema,
    has_tensors,
    is_named_as_operator,
)
from profilers.readers.json_stream import Members, convert_value
from warehouse.records import BadInput

_STEP = "ProfilerStep#"
_SAID = ("schema", "pid", "time")
_SAID_CHARACTERS = 100


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run.

    Reads the file twice, so that memory holds the tree of calls, and of the outermost the rest.

    Raises:
        BadInput: not JSON, a node that is none or is inside of itself, or no operator call in it.
    """
    said, left_out = dict[str, str](), OmissionCounter()
    outermost, steps = _outermost(path, said, left_out)
    calls = sorted(_calls(path, outermost), key=lambda call: call.number)
    if not calls:
        raise BadInput(
            f"{path}: no operator among its nodes; expected what "
            "torch.profiler.ExecutionTraceObserver writes (profiler traces have the format kineto)"
        )
    yield ImportedRun(
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


def _outermost(path: Path, said: dict[str, str], left_out: OmissionCounter) -> tuple[set[int], int]:
    """Return the ids of operator calls that no operator calls, and the number of steps.

    Fills `said` and `left_out` on the way. Left out are nodes with tensors that neither are
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
            said[key] = clean(str(value)[:_SAID_CHARACTERS])
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
