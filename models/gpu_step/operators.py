"""What an operator of a training step has to do on a GPU: floating-point operations and bytes.

An operator is what PyTorch's dispatcher is asked for below automatic differentiation, with the
shapes and types of its tensors. From these alone follows its kind (matrix product, convolution,
attention, normalization, element-wise, ...), how many floating-point operations it has (a
multiplication and an addition each as one), how many bytes it has to move at least, and how large
the matrix product is that it amounts to.

Source: the roofline of Williams, Waterman, Patterson (CACM 2009); operators as Ceer has them
(Hafeez, Gandhi, section III). Convolutions as implicit matrix products: Chetlur et al., cuDNN.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

from models.gpu_step.operator_kinds import KIND_OF, ON_HOST, Kind, common_name
from networks.gpu_steps import Operator, Tensor

HALF = ("bfloat16", "float16")
CONVOLUTIONS = ("convolution", "convolution_backward")
ON_MATRIX_UNITS = ("matmul", "attention", "attention_backward", *CONVOLUTIONS)
DEPTHWISE = ("depthwise", "depthwise_backward")
NORMS = ("normalization", "normalization_backward")
PRODUCTS = (*ON_MATRIX_UNITS, *DEPTHWISE)
"""Kinds that amount to matrix products."""


@dataclass(frozen=True)
class Work:
    """What a call has to do.

    `name` is common to variants of an operator (in place or not, of whichever library). `bytes` is
    what has to be read and written at least. As a matrix product: `batch` times [rows, inner] x
    [inner, columns]; of others, `rows` are what is handled side by side, of `columns` each.
    `dtype` is what is computed in: of the first floating-point tensor. `repeats`: how many such
    products follow one another in a call, each of which waits for the last. `channels_last`: of
    tensors in that format, which is told in half precision, and where a network permutes them.
    `turned`: an operand of a product does not lie along its inner side.
    """

    kind: Kind
    name: str
    dtype: str
    flops: float
    bytes: float
    batch: int = 1
    rows: int = 1
    columns: int = 1
    inner: int = 1
    taps: int = 1
    tensors: int = 1
    repeats: int = 1
    channels_last: bool = False
    turned: bool = False


def work_of(operator: Operator) -> Work:
    """Return what a call has to do."""
    name = common_name(operator.name)
    inputs, outputs = operator.inputs, operator.outputs
    moved = _moved(inputs, outputs)
    if operator.is_unknown:
        return Work("other", name, "float32", operator.flops or 0.0, moved)
    if operator.view or name in ON_HOST or not (inputs or outputs):
        return Work("none", name, "float32", 0.0, 0.0)
    special = _SPECIAL.get(operator.name) or _SPECIAL.get(name)
    if special is not None:
        return _counted(special(name, inputs, outputs), operator.flops)
    if name.startswith("_foreach_"):
        return _optimizer(name, operator)
    kind = KIND_OF.get(name, "elementwise")
    if kind == "fill":
        inputs, moved = (), float(sum(tensor.bytes for tensor in outputs or inputs))
    written = outputs or inputs
    largest = max(
        (*inputs, *written), key=lambda tensor: tensor.numbers, default=Tensor((), "float32")
    )
    sides = 1, *_two_sides(name, kind, largest, inputs, written)
    dtype, tensors = _computed_in(inputs, outputs), len(inputs) + len(outputs)
    return Work(kind, name, dtype, operator.flops or 0.0, moved, *sides, tensors=tensors)


def _moved(inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> float:
    return float(sum(tensor.bytes for tensor in (*inputs, *outputs)))


def _counted(work: Work, flops: float | None) -> Work:
    """Return a product with the operations that were counted, which may be less than shapes tell.

    Causal attention skips keys; transposed convolutions with a stride meet a part of their taps.
    """
    if not flops or not work.flops or work.repeats > 1:
        return work
    share = flops / work.flops
    side = "columns" if work.kind.startswith("attention") else "inner"
    shrunk = {} if share >= 1 else {side: max(round(share * getattr(work, side)), 1)}
    return replace(work, flops=flops, **shrunk)


def _computed_in(inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> str:
    for tensor in (*inputs, *outputs):
        if tensor.dtype.startswith(("float", "bfloat")):
            return tensor.dtype
    return "float32"


def _two_sides(
    name: str, kind: Kind, largest: Tensor, inputs: tuple[Tensor, ...], written: tuple[Tensor, ...]
) -> tuple[int, int]:
    """Return rows and columns of what is reduced; of anything else, all elements and 1."""
    if kind == "softmax" or name.startswith("layer_norm"):
        columns = largest.shape[-1] if largest.shape else 1
    elif name.startswith("batch_norm"):
        columns = largest.numbers // max(largest.shape[1], 1)
    elif kind == "reduction":
        columns = largest.numbers // max(written[0].numbers, 1)
    else:
        columns = 1
    return largest.numbers // max(columns, 1), max(columns, 1)


def _product(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    left, right = inputs[-2:]
    *batches, rows, inner = left.shape
    columns = right.shape[-1]
    batch, dtype = prod(batches), _computed_in((left,), ())
    each = 8.0 if left.dtype.startswith("complex") else 2.0
    flops, moved = each * batch * rows * inner * columns, _moved(inputs, outputs)
    return Work("matmul", name, dtype, flops, moved, batch, rows, columns, inner)


def _grouped_product(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """Experts: each multiplies its part of the rows; offsets say which, and all have alike many."""
    left, right = inputs[:2]
    groups = outputs[0].shape[0] if len(outputs[0].shape) == 3 else right.shape[0]
    rows, inner = left.shape[-2:]
    if len(right.shape) == 3:  # rows are divided among matrices; else, what is summed up is
        rows = max(rows // groups, 1) if len(left.shape) == 2 else rows
    else:
        inner = max(inner // groups, 1)
    sides = Tensor((groups, rows, inner), left.dtype), Tensor((inner, right.shape[-1]), left.dtype)
    return replace(_product("bmm", sides, ()), bytes=_moved(inputs, outputs))


def _convolution(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    backward, wanted = name.endswith("backward"), {tensor.shape for tensor in outputs}
    written, given, weight = inputs[:3] if backward else (outputs[0], *inputs[:2])
    products = (given.shape in wanted) + (weight.shape in wanted) if backward else 1
    # Weights of transposed convolutions are [channels in, channels out of a group, ...].
    is_transposed = weight.shape[0] != written.shape[1]
    grouped = written if is_transposed else given
    groups = max(grouped.shape[1] // max(weight.shape[1], 1), 1)
    deep = groups > 1 and weight.shape[1] == 1
    kind: Kind = "convolution_backward" if backward else "convolution"
    if deep:
        kind = "depthwise_backward" if backward else "depthwise"
    taps = prod(weight.shape[2:])
    inner = taps * (given.shape[1] // groups if is_transposed else weight.shape[1])
    flops, moved = 2.0 * written.numbers * inner * products, _moved(inputs, outputs)
    sides = written.numbers // max(written.shape[1], 1), max(written.shape[1] // groups, 1), inner
    return Work(kind, name, given.dtype, flops, moved, groups, *sides, taps, max(products, 1))


def laid_out(work: Work, is_channels_last: bool) -> Work:
    """Return work of tensors that are channels_last, or contiguous.

    PyTorch gives cuDNN depthwise convolutions that are channels_last, and in float16 those with
    1, 3 or 5 taps a side of 32 channels and more (ATen/native/Convolution.cpp,
    `use_cudnn_depthwise`). In half precision a gradient takes cuDNN as long as forward: so
    ConvNeXt of milabench says.
    """
    if work.kind not in DEPTHWISE or work.dtype not in HALF:
        return replace(work, channels_last=is_channels_last)
    is_chosen = work.dtype == "float16" and work.taps in (1, 9, 25) and work.batch >= 32
    if work.kind == "depthwise" or not (is_channels_last or is_chosen):
        return work
    flops, moved = work.flops / work.tensors, work.bytes / work.tensors
    of_one = replace(work, kind="depthwise", name="convolution", flops=flops, bytes=moved)
    return replace(of_one, repeats=work.tensors)


def _attention(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """Query [batch, heads, length, head size]; keys [batch, their heads, their length, size]."""
    backward = name.endswith("backward")
    query, key = inputs[1:3] if backward else inputs[:2]
    batch, heads, length, size = query.shape
    pairs = batch * heads * length * key.shape[-2]
    square = (length, key.shape[-2])
    seen = [tensor for tensor in inputs if len(tensor.shape) == 4 and tensor.shape[-2:] == square]
    # Queries, keys, values, what came of them and its gradient may look like a bias.
    alike = (5 if backward else 3) if query.shape[-2:] == square else 0
    biased = len([tensor for tensor in seen if tensor.dtype != "bool"]) > alike
    kind: Kind = "attention_backward" if backward else "attention"
    flops, moved = 2.0 * (5 if backward else 2) * pairs * size, _moved(inputs, outputs)
    sides = batch * heads, length, key.shape[-2], size
    return Work(kind, f"{name}_biased" if biased else name, query.dtype, flops, moved, *sides)


def _recurrent(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """A product for each step of each layer and direction, and two backward; weights follow states.

    States are [layers and directions, batch, hidden]; matrices [gates x hidden, features].
    """
    given = inputs[0]
    state = next(tensor for tensor in inputs[1:] if len(tensor.shape) == 3)
    matrices = [tensor for tensor in inputs[1:] if len(tensor.shape) == 2]
    layers, batch, _ = state.shape
    steps = given.numbers // max(given.shape[-1] * batch, 1)
    columns = matrices[0].shape[0]
    inner = max(sum(matrix.numbers for matrix in matrices) // (layers * columns), 1)
    size = given.bytes // max(given.numbers, 1)
    flops, moved = (
        2.0 * batch * inner * columns,
        size * (inner * columns + batch * (inner + columns)),
    )
    repeats = max(steps * layers, 1) * (2 if name.endswith("backward") else 1)
    sides = 1, batch, columns, inner
    flops = 2.0 * batch * inner * columns
    return Work("matmul", name, given.dtype, flops, moved, *sides, repeats=repeats)


def _embedding(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """Rows that are looked up are read and written; the table is not read whole."""
    written = outputs[0]
    return Work(
        "embedding", name, _computed_in(inputs, outputs), 0.0, 2.0 * written.bytes,
        rows=written.numbers // max(written.shape[-1:] or (1,)), columns=1,
    )  # fmt: skip


def _bag(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """Rows that are looked up are read, and added to those of bags."""
    table, ids = inputs[:2]
    read = ids.bytes + ids.numbers * table.bytes // max(table.shape[0], 1)
    moved = read + sum(tensor.bytes for tensor in outputs)
    return Work("embedding", name, table.dtype, 0.0, float(moved), rows=ids.numbers)


def _embedding_backward(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """The gradient of a table is filled with zeros, and a row is added to it for each look-up."""
    given, ids, table = inputs[0], inputs[1], outputs[0]
    columns = max(given.shape[-1], 1)
    added = ids.numbers * columns * given.bytes // max(given.numbers, 1)
    return Work(
        "embedding_backward", name, given.dtype, 0.0, float(3 * added + table.bytes),
        rows=ids.numbers, columns=table.shape[0],
    )  # fmt: skip


def causal(operator: Operator) -> Operator:
    """Return attention whose queries see no later keys, as kernels skip them."""
    work = work_of(operator)
    return replace(operator, flops=work.flops * (work.rows + 1) / (2 * work.rows))


def _added(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """Rows that are given are read, and read and written where they belong; others are not."""
    given = inputs[-1]
    moved = sum(tensor.bytes for tensor in inputs[1:]) + 2 * given.bytes
    return Work("elementwise", name, given.dtype, 0.0, float(moved), rows=given.numbers)


def _optimizer(name: str, operator: Operator) -> Work:
    """A call for all parameters at once: it reads every list of tensors and writes one."""
    given = operator.inputs
    scalars = all(tensor.numbers <= 1 for tensor in given)
    if scalars:
        return Work("none", name, "float32", 0.0, 0.0)
    moved = sum(tensor.bytes for tensor in given)
    first = operator.outputs or given
    written = sum(tensor.bytes for tensor in operator.outputs) or given[0].bytes
    return Work("optimizer", name, given[0].dtype, 0.0, float(moved + written), tensors=len(first))


def _loss(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """Of every row one number is read; the gradient is filled with zeros first."""
    moved = outputs[0].bytes if name.endswith("backward") else 0
    return Work("reduction", name, "float32", 0.0, float(moved + 1), rows=1, columns=1)


def _slice_backward(name: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> Work:
    """Zeros, and a copy of what is given into them."""
    moved = outputs[0].bytes + 2 * inputs[0].bytes
    return Work("copy", name, inputs[0].dtype, 0.0, float(moved), rows=outputs[0].numbers)


_IN_PLACE = (
    "_index_put_impl_",
    "index_add_",
    "index_copy_",
    "index_put_",
    "scatter_",
    "scatter_add_",
)
_Worker = Callable[[str, tuple[Tensor, ...], tuple[Tensor, ...]], Work]
_SPECIAL: Mapping[str, _Worker] = {
    "_grouped_mm": _grouped_product,
    **dict.fromkeys(_IN_PLACE, _added),
    **dict.fromkeys(("gather", "index", "index_select", "take"), _embedding),
    "_embedding_bag": _bag,
    "_embedding_bag_backward": _embedding_backward,
    "_embedding_bag_forward_only": _bag,
    "_cudnn_rnn": _recurrent,
    "_cudnn_rnn_backward": _recurrent,
    "addmm": _product,
    "attention": _attention,
    "attention_backward": _attention,
    "baddbmm": _product,
    "bmm": _product,
    "convolution": _convolution,
    "convolution_backward": _convolution,
    "embedding_dense_backward": _embedding_backward,
    "mm": _product,
    "nll_loss_backward": _loss,
    "nll_loss_forward": _loss,
    "select_backward": _slice_backward,
    "slice_backward": _slice_backward,
}
