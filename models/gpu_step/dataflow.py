"""The calls of a traced step as nodes that read and write values, as Inductor lowers them.

A value is what a call makes in a storage; one that writes in place makes another value of the same
storage. Views are no nodes. A call is one node, but for these, which Inductor takes apart:

* softmax, its logarithm and both backward, layer and group norms and both backward: a reduction of
  each row, and what is computed of its result and the row; gradients of weights are reductions of
  columns beside;
* batch norms: a reduction of columns, and what is computed of its result;
* the loss of a class of each row: a row reads one number, and rows are reduced;
* gradients of embeddings: a table of zeros, into which rows are added.

Source: torch/_inductor/decomposition.py, lowering.py, ir.py (Reduction.num_splits) and choices.py
(reduction_split_factor) of PyTorch 2.13.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from models.gpu_step.operator_kinds import KIND_OF, ON_HOST, common_name
from models.gpu_step.operators import PRODUCTS
from networks.gpu_steps import GpuStep, Operator, Tensor

WAITS = "_local_scalar_dense"
BREAKS = frozenset({WAITS, "_cudnn_rnn", "_cudnn_rnn_backward"})
"""Calls that are in no graph: a value that is asked for, and recurrent layers (`allow_rnn`)."""
NodeKind = Literal["alone", "pointwise", "window", "row", "columns", "scatter"]
"""`window`: reads elements of others several times, so these are written before; `row`: reduces
each row; `columns`: reduces what lies apart; `alone`: no kernel of Inductor's."""
_RANDOM = ("bernoulli", "dropout", "rand", "normal", "uniform", "exponential")
_OWN_KERNELS = ("cum", "sort", "topk", "_fft", "linalg", "_linalg", "multinomial", "logcumsumexp")
"""How names begin of what has a kernel of its own, though shapes stay as they were."""
_GATHERS = ("gather", "index", "index_select", "take")
_SCATTERS = (
    *("index_add", "index_copy", "index_put", "_index_put_impl", "scatter", "scatter_add"),
    *("scatter_reduce", "embedding_dense_backward"),
)
_WINDOWS = ("pool", "upsample")
_REDUCTIONS = (
    *("sum", "mean", "amax", "amin", "any", "all", "prod", "norm", "var", "std", "var_mean"),
    *("max", "min", "argmax", "argmin", "logsumexp", "linalg_vector_norm"),
)
_MULTIPROCESSORS = 132
"""Of an H100: reductions are in two kernels where they would leave most of these idle."""
_LONG_ROW = 8192
_FEW = 32
Touched = list[tuple[int, Tensor]]
"""Numbers of values, and what is read or written of each."""


@dataclass
class Value:
    """What a node makes in a storage; `maker` None: it was there before the step."""

    tensor: Tensor
    storage: int
    maker: int | None = None
    readers: list[int] = field(default_factory=list)


class Part(NamedTuple):
    """How a part of a call is computed.

    Attributes:
        kind: see `NodeKind`.
        reads: values; `writes` alike.
        numel: elements of its iteration space; of what reduces columns, of its result.
        columns: elements of a row, of what reduces rows.
        finals: kernels that make results of parts of them, where few results are of many elements.
    """

    kind: NodeKind
    reads: Touched
    writes: Touched
    numel: int
    columns: int = 0
    finals: int = 0


@dataclass(frozen=True)
class Node:
    """A part of a call, and where the call stands.

    Attributes:
        part: how it is computed.
        name: that variants of its operator have in common.
        operator: that is called.
        call: its place in the step's order.
        segment: of the graph it is in: calls of `BREAKS`, and the begin of backward, end one.
        parts: how many nodes its call has.
    """

    part: Part
    name: str
    operator: Operator
    call: int
    segment: int
    parts: int

    @property
    def is_random(self) -> bool:
        """Whether it draws numbers, which are drawn once."""
        return any(word in self.name for word in _RANDOM) and not self.name.endswith("backward")


@dataclass(frozen=True)
class DataFlowGraph:
    """Nodes in the order of their calls, and values; `first_backward` segment."""

    nodes: list[Node]
    values: list[Value]
    first_backward: int

    def add(self, node: Node) -> None:
        """Add a node: what it writes is made by it."""
        place = len(self.nodes)
        for number, _ in node.part.writes:
            self.values[number].maker = place
        for number, _ in node.part.reads:
            self.values[number].readers.append(place)
        self.nodes.append(node)

    def value(self, tensor: Tensor, storage: int = -1) -> int:
        """Add a value; one of no storage that is known, -1, has a storage of its own."""
        number = len(self.values)
        self.values.append(Value(tensor, storage if storage != -1 else -2 - number))
        return number


def breaking_calls(step: GpuStep) -> Mapping[str, int]:
    """Return how often calls of forward break its graph, as far as tracing sees it, by name."""
    found: dict[str, int] = {}
    forward = step.order if step.flow is None else step.order[: step.flow.forward]
    for number in forward:
        if (name := step.operators[number].name) in BREAKS:
            found[name] = found.get(name, 0) + 1
    return found


def graph_of(step: GpuStep) -> DataFlowGraph:
    """Return the nodes of a step.

    Raises:
        ValueError: nobody noted which storages its calls touch.
    """
    if step.flow is None:
        raise ValueError("a trace that does not tell which storages are touched is not compiled")
    graph = DataFlowGraph([], [], 0)
    current: dict[int, int] = {}
    at = segment = 0
    for place, number in enumerate(step.order):
        operator = step.operators[number]
        if place == step.flow.forward:
            segment += 1
            graph = replace(graph, first_backward=segment)
        end = at + len(operator.inputs) + len(operator.outputs)
        storages, at = step.flow.storages[at:end], end
        name = common_name(operator.name)
        is_break = operator.name in BREAKS
        if operator.view or (name in ON_HOST and not is_break):
            continue
        segment += is_break
        parts = list(_parts(graph, name, operator, *_touched(graph, current, operator, storages)))
        for part in parts:
            graph.add(Node(part, name, operator, place, segment, len(parts)))
        segment += is_break
    return graph


def _touched(
    graph: DataFlowGraph, current: dict[int, int], operator: Operator, storages: Sequence[int]
) -> tuple[Touched, Touched]:
    """Return what a call reads and writes; what it writes is `current` in its storages then."""
    given = len(operator.inputs)
    reads: Touched = []
    for tensor, storage in zip(operator.inputs, storages[:given], strict=True):
        number = current.get(storage)
        if number is None:
            number = graph.value(tensor, storage)
            if storage >= 0:
                current[storage] = number
        reads.append((number, tensor))
    writes: Touched = []
    for tensor, storage in zip(operator.outputs, storages[given:], strict=True):
        number = graph.value(tensor, storage)
        if storage >= 0:
            current[storage] = number
        writes.append((number, tensor))
    if operator.name in ("copy_", "fill_", "zero_") and reads:
        number, tensor = reads[0]
        if graph.values[number].tensor.numbers <= tensor.numbers:
            reads = reads[1:]  # all that was there is replaced
    return reads, writes


def _parts(
    graph: DataFlowGraph, name: str, operator: Operator, reads: Touched, writes: Touched
) -> Iterator[Part]:
    kind = KIND_OF.get(name, "elementwise")
    tensors = [tensor for _, tensor in (*reads, *writes)]
    most = max((tensor.numbers for tensor in tensors), default=0)
    is_alone = kind in PRODUCTS or operator.is_unknown or operator.name in BREAKS or not writes
    is_alone |= name.startswith(_OWN_KERNELS) or any("complex" in each.dtype for each in tensors)
    is_alone |= name in ("_conv_depthwise2d", "convolution", "convolution_backward")
    if is_alone:
        yield Part("alone", reads, writes, most)
    elif kind in ("normalization", "normalization_backward", "softmax"):
        yield from _normalization(graph, name, reads, writes)
    elif name.startswith("nll_loss") and name.endswith("forward"):
        (scores, given), classes = reads[0], reads[1]
        rows = classes[1].numbers
        chosen = Tensor((rows,), given.dtype)
        of_rows = graph.value(chosen), chosen
        read = [(scores, chosen), classes]
        yield Part("row", read, [of_rows], given.numbers, given.numbers // max(rows, 1))
        yield Part("columns", [of_rows, *reads[2:]], writes, 1, finals=int(rows > _LONG_ROW))
    elif name.startswith("nll_loss"):
        yield Part("pointwise", [reads[0], *reads[2:]], writes, writes[0][1].numbers)
    elif kind == "fill":
        yield Part("pointwise", [], writes, writes[0][1].numbers)
    elif name in _SCATTERS:
        yield from _scatter(graph, name, operator, reads, writes)
    elif name in _GATHERS:
        (table, given), result = reads[0], writes[0][1]
        looked_up = table, Tensor(result.shape, given.dtype)
        yield Part("pointwise", [looked_up, *reads[1:]], writes, result.numbers)
    elif name in _REDUCTIONS and reads and writes[0][1].numbers < reads[0][1].numbers:
        yield _reduction(reads, writes, reduces_rows(reads[0][1].shape, writes[0][1].shape))
    elif any(word in name for word in _WINDOWS):
        yield Part("window", reads, writes, writes[0][1].numbers)
    elif all(tensor.numbers == most for _, tensor in writes):
        yield Part("pointwise", reads, writes, most)
    else:
        yield Part("alone", reads, writes, most)


def _normalization(
    graph: DataFlowGraph, name: str, reads: Touched, writes: Touched
) -> Iterator[Part]:
    """Yield a reduction, what is made of its result, and reductions to gradients of weights."""
    numbers = reads[0][1].numbers
    wide = [each for each in writes if each[1].numbers == numbers]
    small = [each for each in writes if 0 < each[1].numbers < numbers]
    backward = name.endswith("backward")
    if name.startswith("batch_norm"):
        if not small and not backward:  # it is not in training
            yield Part("pointwise", reads, wide, numbers)
            return
        channels = reads[0][1].shape[1] if len(reads[0][1].shape) > 1 else 1
        of_channels = small or [_inner(graph, channels)]
        reduced = numbers // max(of_channels[0][1].numbers, 1)
        finals = len(of_channels) * (reduced > _LONG_ROW) if backward else int(reduced > _FEW)
        read = reads if backward else reads[:1]
        yield Part("columns", read, of_channels, of_channels[0][1].numbers, finals=finals)
    elif name.startswith(("layer_norm", "group_norm")) and backward:
        rows = reads[2][1].numbers
        of_channels = [_inner(graph, rows)]
        if wide:
            yield _reduction(reads[:5], of_channels, True)
        if small:
            yield _reduction(reads[:4], small, False)
    else:
        rows = numbers // max((reads[0][1].shape or (1,))[-1], 1)
        of_channels = small or [_inner(graph, rows)]
        yield _reduction(reads[: 2 if backward else 1], of_channels, True)
    if wide:
        yield Part("pointwise", [*reads, *of_channels], wide, numbers)


def _inner(graph: DataFlowGraph, numbers: int) -> tuple[int, Tensor]:
    """Return a value that is no tensor of the step: what parts of a call hand on."""
    tensor = Tensor((numbers,), "float32")
    return graph.value(tensor), tensor


def _reduction(reads: Touched, writes: Touched, of_rows: bool) -> Part:
    """Return what reduces rows; few long ones are divided, as columns are."""
    given, results = reads[0][1].numbers, max(writes[0][1].numbers, 1)
    columns = max(given // results, 1)
    if of_rows and (results >= 2 * _MULTIPROCESSORS or columns <= _LONG_ROW):
        return Part("row", reads, writes, given, columns)
    is_split = columns > (_LONG_ROW if of_rows or results == 1 else _FEW)
    is_split &= results < 64 * _MULTIPROCESSORS
    return Part("columns", reads, writes, results, finals=len(writes) * is_split)


def reduces_rows(given: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Tell whether what is reduced are the last dimensions of a tensor."""
    if len(given) == len(result):
        kept = [place for place, side in enumerate(result) if side > 1]
        first = next((at for at, side in enumerate(given) if side != result[at]), len(given))
        return not kept or kept[-1] < first
    return given[: len(result)] == result


def _scatter(
    graph: DataFlowGraph, name: str, operator: Operator, reads: Touched, writes: Touched
) -> Iterator[Part]:
    """Yield what is there before, unless it is in place, and what is added to it."""
    (result, table), storage = writes[0], graph.values[writes[0][0]].storage
    of_embedding = name == "embedding_dense_backward"
    added = reads[0] if of_embedding else reads[-1]
    base: Touched = [] if of_embedding else reads[:1]
    rest = reads if of_embedding else reads[1:]
    there = base
    if of_embedding or not operator.name.endswith("_"):
        there = [(graph.value(table, storage), table)]
        yield Part("pointwise", base, there, table.numbers)
    touched = Tensor(added[1].shape, table.dtype)
    read = [*rest, *((number, touched) for number, _ in there)]
    yield Part("scatter", read, [(result, touched)], added[1].numbers)
