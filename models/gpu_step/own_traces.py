"""Operators of one's own profiled steps, as `stepcast import kineto --worker` has them.

A kernel belongs to the innermost operator that launched it; what an operator takes is the sum of
its kernels, medians over steps. The trace has the tensors that an operator was given; what it
writes follows from them. Left out are copies from and to the host, operators without shapes, and
those of which the trace does not say what they write. A product in float32 is TF32 where its
kernel's name says so.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from models.gpu_step.device import Device, device_of_node
from models.gpu_step.gpu_time import Timing
from models.gpu_step.operators import causal, laid_out, work_of
from models.gpu_step.step import in_tf32
from models.system import Tables
from networks.gpu_steps import Operator, Tensor

PROBE = "kineto"
TABLES = ("operation", "operation_shape", "operation_time")
_DTYPES: Mapping[str, str] = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "bool": "bool",
    "unsigned char": "uint8",
    "signed char": "int8",
}
_TF32 = re.compile("tf32|s1688|s884gemm_fp32", re.IGNORECASE)
_AMPERE = re.compile("sm80|s1688|cutlass_80", re.IGNORECASE)
_OF_HOST = "HtoD|DtoH|Pageable|Pinned"
_NORMS_WITH_BACKWARD = ("native_layer_norm", "native_batch_norm", "cudnn_batch_norm")
_TRUTHS = re.compile("^(eq|ne|l[te]|g[te]|logical_|is)")


@dataclass(frozen=True)
class _Call:
    """Arguments of an operator by place: tensors (None: no tensor), and other values as text."""

    tensors: Sequence[Tensor | None]
    values: Sequence[str]
    channels_last: bool

    @property
    def given(self) -> tuple[Tensor, ...]:
        """Return its tensors."""
        return tuple(tensor for tensor in self.tensors if tensor is not None)

    def tensor(self, place: int) -> Tensor:
        """Return the tensor at a place; a `LookupError` if there is none."""
        tensor = self.tensors[place]
        if tensor is None:
            raise LookupError
        return tensor

    def numbers(self, place: int) -> list[int]:
        """Return the whole numbers of a value such as `[1, 1]`; `LookupError` if none is told."""
        numbers = [int(number) for number in re.findall(r"-?\d+", self.values[place])]
        if not numbers:
            raise LookupError
        return numbers


_Maker = Callable[[str, _Call], Operator]


@dataclass(frozen=True)
class OwnTrace:
    """A profiled step on a device: its operators that can be told, and who says so."""

    device: Device
    source: str
    timings: tuple[Timing, ...]


def read_traces(tables: Tables) -> list[OwnTrace]:
    """Return own traces, each operator of a shape once.

    Args:
        tables: rows of `run`, `source` and `TABLES`; runs of other probes are ignored.
    """
    worker = pl.col("config").str.json_path_match("$.worker").alias("worker")
    runs = tables["run"].filter(probe=PROBE).select("run_id", worker).drop_nulls()
    named = runs.join(tables["source"].select("run_id", "source"), on="run_id").sort("run_id")
    traces = []
    for run_id, node_type, source in named.iter_rows():
        device = device_of_node(node_type)
        if device is not None:
            rows = {name: tables[name].filter(run_id=run_id) for name in TABLES}
            traces.append(OwnTrace(device, source, tuple(_timings(rows, device))))
    return traces


def _timings(tables: Tables, device: Device) -> Iterator[Timing]:
    for name, call, kernel, us, calls in _timed(tables):
        operator = _operator(name, call)
        if operator is not None:
            work = laid_out(work_of(operator), call.channels_last)
            if _TF32.search(kernel):
                work = replace(in_tf32(work), turned=bool(_AMPERE.search(kernel)))
            if work.kind not in ("none", "other"):
                yield Timing(work, device, us, calls)


def _timed(tables: Tables) -> Iterator[tuple[str, _Call, str, float, float]]:
    """Yield operator, arguments, its longest kernel, microseconds of a call, and calls a step."""
    operations = (
        tables["operation"]
        .join(tables["operation_time"].select("operation", "steps", "median_us"), on="operation")
        .join(tables["operation_shape"].select("operation", "inputs", "attributes"), on="operation")
    )
    steps = operations.select(pl.col("steps").max()).item()
    kernels = operations.filter(
        pl.col("device") == "gpu",
        pl.col("type").str.starts_with("aten::"),
        ~pl.col("name").str.contains(_OF_HOST),
    )
    key = ["type", "inputs", "attributes"]
    by_kernel = kernels.group_by(*key, "name").agg(
        pl.col("steps").sum().alias("times"),
        (pl.col("steps") * pl.col("median_us")).sum().alias("us"),
    )
    launched = by_kernel.group_by(key).agg(
        pl.col("us").sum(),
        # A call launches each of its kernels once or more often.
        pl.col("times").max(),
        pl.col("name").sort_by("us").last(),
    )
    called = (
        operations.filter(pl.col("device") == "host", pl.col("name") == pl.col("type"))
        .group_by(key)
        .agg(pl.col("steps").sum().alias("called"))
    )
    for row in launched.join(called, on=key).sort(key).to_dicts():
        calls = min(row["times"], row["called"])
        call = _call(json.loads(row["inputs"]), json.loads(row["attributes"]))
        yield (
            row["type"].removeprefix("aten::"),
            call,
            row["name"],
            row["us"] / calls,
            calls / steps,
        )


def _call(inputs: Sequence[Any], about: Mapping[str, Any]) -> _Call:
    """Return the arguments of a call; what a file has in place of a list is none."""
    types, values, strides = (
        given if isinstance(given := about.get(name), list) else []
        for name in ("types", "values", "strides")
    )
    tensors = [
        Tensor(tuple(shape), _DTYPES[kind])
        if kind in _DTYPES and all(isinstance(side, int) for side in shape)
        else None
        for shape, kind in zip(inputs, types, strict=False)
    ]
    is_channels_last = any(
        tensor is not None
        and len(tensor.shape) == 4
        and tensor.shape[1] > 1
        and isinstance(apart, list)
        and apart[1:2] == [1]
        for tensor, apart in zip(tensors, strides, strict=False)
    )
    return _Call(tensors, [str(value) for value in values], is_channels_last)


def _operator(name: str, call: _Call) -> Operator | None:
    """Return an operator with what it reads and writes; None: the trace does not say what."""
    if not call.given:
        return None
    make = _SPECIAL.get(name) or _SPECIAL.get(name.removesuffix("_"))
    try:
        return make(name, call) if make else _pointwise(name, call)
    except (LookupError, ValueError):
        return None


def _pointwise(name: str, call: _Call) -> Operator:
    """Element by element: what is written is as large as what is read, broadcast."""
    shape = np.broadcast_shapes(*(tensor.shape for tensor in call.given))
    largest = max(call.given, key=lambda tensor: (tensor.dtype != "bool", tensor.bytes))
    dtype = "bool" if _TRUTHS.match(name) else largest.dtype
    return Operator(name, call.given, (Tensor(tuple(shape), dtype),))


def _as_given(place: int) -> _Maker:
    """Return what makes an operator that writes a tensor like one that it is given."""
    return lambda name, call: Operator(name, call.given, (call.given[place],))


def _product(name: str, call: _Call) -> Operator:
    left, right = call.given[-2:]
    return Operator(name, call.given, (Tensor((*left.shape[:-1], right.shape[-1]), left.dtype),))


def _convolution(padding: int, stride: int, dilation: int) -> Callable[[str, _Call], Operator]:
    """Return what makes a convolution of which these values stand at these places."""

    def made(name: str, call: _Call) -> Operator:
        given, weight = call.tensor(0), call.tensor(1)
        paddings, strides, dilations = map(call.numbers, (padding, stride, dilation))
        sides = [
            (side + 2 * pad - spread * (taps - 1) - 1) // step + 1
            for side, taps, pad, step, spread in zip(
                given.shape[2:], weight.shape[2:], paddings, strides, dilations, strict=True
            )
        ]
        written = Tensor((given.shape[0], weight.shape[0], *sides), given.dtype)
        return Operator("convolution", (given, weight), (written,))

    return made


def _convolution_backward(name: str, call: _Call) -> Operator:
    written, given, weight = (call.tensor(place) for place in range(3))
    wanted = re.findall("True|False", call.values[10])
    gradients = [
        each for each, mask in zip((given, weight), wanted, strict=False) if mask == "True"
    ]
    return Operator(name, (written, given, weight), tuple(gradients))


def _attention(causal_at: int) -> _Maker:
    """Return what makes attention with its mask at a place; heads come after lengths."""

    def made(name: str, call: _Call) -> Operator:
        backward = name.endswith("backward")
        query, key, value = (
            replace(
                tensor, shape=(tensor.shape[0], tensor.shape[2], tensor.shape[1], tensor.shape[3])
            )
            for tensor in map(call.tensor, range(backward, backward + 3))
        )
        forward = (query, key, value)
        operator = Operator(name, forward, (query,))
        if backward:
            operator = Operator(name, (query, *forward, query), forward)
        return causal(operator) if call.values[causal_at] in ("True", "1") else operator

    return made


def _selected(name: str, call: _Call) -> Operator:
    table, ids = call.given[0], call.given[-1]
    return Operator(
        "embedding", (table, ids), (Tensor((*ids.shape, *table.shape[1:]), table.dtype),)
    )


def _embedding_backward(name: str, call: _Call) -> Operator:
    given, ids = call.tensor(0), call.tensor(1)
    (rows,) = call.numbers(2)
    return Operator(name, (given, ids), (Tensor((rows, given.shape[-1]), given.dtype),))


def _copy(name: str, call: _Call) -> Operator:
    target, source = call.given
    return Operator("_to_copy", (source,), (target,))


def _fill(name: str, call: _Call) -> Operator:
    return Operator("fill_", (), call.given[:1])


def _reduction(name: str, call: _Call) -> Operator:
    given = call.tensor(0)
    if not call.values[1].startswith("["):  # no list of dimensions: all are reduced
        return Operator(name, (given,), (Tensor((), given.dtype),))
    sides = re.findall(r"-?\d+", call.values[1]) or range(len(given.shape))
    reduced = {int(side) % len(given.shape) for side in sides}
    left = tuple(side for place, side in enumerate(given.shape) if place not in reduced)
    return Operator(name, (given,), (Tensor(left, given.dtype),))


def _normalization_backward(name: str, call: _Call) -> Operator:
    given, (scale, *_) = call.tensor(1), [each for each in call.given if len(each.shape) == 1]
    return Operator(name, call.given, (given, scale, scale))


def _dropout(name: str, call: _Call) -> Operator:
    (given,) = call.given
    return Operator(name, (given,), (given, Tensor(given.shape, "bool")))


def _pooling(name: str, call: _Call) -> Operator:
    given = call.tensor(0)
    kernel, strides, paddings = (call.numbers(place) for place in (1, 2, 3))
    sides = [
        (side + 2 * pad - taps) // step + 1
        for side, taps, step, pad in zip(given.shape[2:], kernel, strides, paddings, strict=True)
    ]
    written = Tensor((*given.shape[:2], *sides), given.dtype)
    return Operator(name, (given,), (written, Tensor(written.shape, "int64")))


def _untold(name: str, call: _Call) -> Operator:
    raise LookupError


_SPECIAL: Mapping[str, _Maker] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), _product),
    "cudnn_convolution": _convolution(2, 3, 4),
    "_conv_depthwise2d": _convolution(5, 4, 6),
    "convolution_backward": _convolution_backward,
    "_flash_attention_forward": _attention(8),
    "_flash_attention_backward": _attention(11),
    "_efficient_attention_forward": _attention(9),
    "_efficient_attention_backward": _attention(14),
    "index_select": _selected,
    "embedding_dense_backward": _embedding_backward,
    "copy_": _copy,
    "fill_": _fill,
    "zero_": _fill,
    **dict.fromkeys(("sum", "mean", "amax", "amin"), _reduction),
    **dict.fromkeys(
        (
            *(*_NORMS_WITH_BACKWARD, "native_group_norm"),
            *("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
            *("native_dropout_backward", "nll_loss_forward"),
        ),
        _as_given(0),
    ),
    **dict.fromkeys(("max_pool2d_with_indices_backward", "nll_loss_backward"), _as_given(1)),
    **dict.fromkeys((f"{norm}_backward" for norm in _NORMS_WITH_BACKWARD), _normalization_backward),
    "native_dropout": _dropout,
    "max_pool2d_with_indices": _pooling,
    **dict.fromkeys(
        (
            *("cat", "stack", "index", "index_put", "gather", "scatter", "scatter_add", "topk"),
            *("sort", "arange", "cumsum", "bincount", "nonzero", "masked_select", "where_self"),
            *("convolution", "cudnn_convolution_transpose", "_cudnn_rnn", "_cudnn_rnn_backward"),
            *("_embedding_bag", "_embedding_bag_dense_backward", "slow_conv_dilated2d", "var_mean"),
            *("_cudnn_attention_forward", "_cudnn_attention_backward"),
            *(
                "_scaled_dot_product_cudnn_attention",
                "_scaled_dot_product_cudnn_attention_backward",
            ),
        ),
        _untold,
    ),
}
"""What an operator reads and writes, by its name; of others it is element by element."""
