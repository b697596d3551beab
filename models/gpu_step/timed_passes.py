"""Passes of networks that others timed: of transformers by operation, of CNNs by their traces.

Layers that Sailor timed are as Megatron-DeepSpeed's `megatron/model/{opt,gpt_neo}_model.py` has
them: attention by products, a mask and a softmax; biases of the projections of queries, keys and
values alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from models.gpu_step.channels_last import TwoLayouts, in_channels_last
from models.gpu_step.device import devices
from models.gpu_step.gpu_time import Timing
from models.gpu_step.measurements import MeasuredStep
from models.gpu_step.operators import Work, work_of
from models.gpu_step.public_rows import (
    STEP_KEY,
    Fields,
    RowsBySet,
    Shape,
    by_subject,
    call,
    shape_of,
    traces_of,
)
from models.gpu_step.step import StepWork, in_tf32, step_work
from models.gpu_step.timed_calls import OPERATOR_NAMES
from networks.gpu_steps import Operator, Tensor

_SLOWED = ("NVIDIA_A100-PCIE-40GB", ("bert_large", "gpt2_large"))
"""A device of neusight, and models whose inference ran there at lower clocks: no fits."""


def neusight_passes(rows: RowsBySet) -> tuple[tuple[MeasuredStep, ...], list[Timing]]:
    keys = ("device", "model", "mode", "sequence_length", "batch")
    operations: dict[tuple[Any, ...], list[Fields]] = defaultdict(list)
    for row in rows["neusight", "operations"]:
        if row["metric"] == "forward_s":
            operations[tuple(row[key] for key in keys)].append(row)
    published = by_subject(rows["neusight", "published"], *keys, "options")
    passes, timings = [], []
    for row in rows["neusight", "steps"]:
        device = devices().get(row["device"])
        key = tuple(row[name] for name in keys)
        if device is None or row["trace"] != "present" or row["options"] or row["gpus"] != 1:
            continue
        works: list[Work] = []
        calls: list[int] = []
        is_slowed = row["device"] == _SLOWED[0] and row["model"] in _SLOWED[1]
        for operation in operations[key]:
            forward = [work_of(operator) for operator in _forward(operation)]
            backward = backward_of(_forward(operation)) if row["mode"] == "train" else ()
            all_works = (*forward, *map(work_of, backward))
            works += all_works
            calls += [int(operation["count_in_step"])] * len(all_works)
            us = 1e6 * operation["value"]
            if len(forward) == 1 and us > 50 and not (is_slowed and row["mode"] == "inf"):
                timings.append(Timing(forward[0], device, us, 1.0, row["family"]))
        metrics = published.get((*key, row["options"]), {})
        passes.append(
            MeasuredStep(
                "neusight",
                row["model"],
                row["family"],
                row["batch"],
                device,
                StepWork.of(works, calls),
                1e6 * row["value"],
                row["mode"],
                published_us={
                    name.removesuffix("_step_time_s"): 1e6 * seconds
                    for name, seconds in metrics.items()
                },
            )
        )
    return tuple(passes), timings


def _forward(row: Fields) -> list[Operator]:
    """Return the operator of a row; what launches nothing has none."""
    operation = row["operation"]
    given = [shape_of(text) for text in (row["input_shapes"] or "").split(";") if text]
    written = [shape_of(text) for text in (row["output_shape"] or "").split(";") if text]
    if operation in ("graph_node", "bookkeeping") or not given:
        return []
    match operation:
        case "dropout":
            return dropout(given[0]) if row["mode"] == "train" else []
        case "linear":
            left = given[1] if len(given) == 3 else given[0]
            columns = written[0][-1] if written else given[2][-1]
            sides = [(columns,), (prod(left[:-1]), left[-1]), (left[-1], columns)]
            return [call("addmm", sides, [(prod(left[:-1]), columns)])]
        case "matmul" | "bmm":
            if len(given) < 2:
                return []
            left, right = given[:2]
            batch = prod(left[:-2])
            sides = [(batch, *left[-2:]), (batch, *right[-2:])]
            return [call("bmm", sides, [(batch, left[-2], right[-1])])]
        case "embedding":
            return [call("embedding", [(1, written[0][-1]), given[0]], written)]
    if not written:
        return []
    others = {"copy": "clone", "cast": "_to_copy"}
    name = OPERATOR_NAMES.get(operation) or others.get(operation) or str(operation)
    return [call(name, given, written[:1])]


def dropout(shape: Shape) -> list[Operator]:
    """Return dropout as it is trained: it writes which elements it keeps, too."""
    given, kept = Tensor(shape, "float32"), Tensor(shape, "bool")
    return [Operator("native_dropout", (given,), (given, kept))]


_VOCABULARY = 30_000
"""Rows of a table of words, which the source does not name."""


def backward_of(forward: Sequence[Operator]) -> Iterator[Operator]:
    """Yield operators of the backward pass: products for both sides, bytes of the others."""
    for operator in forward:
        written = [output.shape for output in operator.outputs]
        given = [tensor.shape for tensor in operator.inputs]
        match operator.name:
            case "addmm":
                (_, (rows, inner), (_, columns)) = given
                yield call("mm", [(rows, columns), (columns, inner)], [(rows, inner)])
                yield call("mm", [(columns, rows), (rows, inner)], [(columns, inner)])
                yield call("sum", written, [(1, columns)])
                yield call("add", [(columns, inner)] * 2, [(columns, inner)])
            case "mm":
                ((rows, inner), (_, columns)) = given
                yield call("mm", [(rows, columns), (columns, inner)], [(rows, inner)])
                yield call("mm", [(inner, rows), (rows, columns)], [(inner, columns)])
            case "bmm":
                ((batch, rows, inner), (_, _, columns)) = given
                yield call("bmm", [(batch, rows, columns), (batch, columns, inner)], [given[0]])
                yield call("bmm", [(batch, inner, rows), (batch, rows, columns)], [given[1]])
            case "_softmax":
                yield call("_softmax_backward_data", written * 2, written)
            case "native_layer_norm":
                yield call("native_layer_norm_backward", given[:1] * 2, written)
            case "gelu" | "tanh" | "relu":
                yield call(f"{operator.name}_backward", given * 2, written)
            case "embedding":
                table = [(_VOCABULARY, written[0][-1])]
                yield call("embedding_dense_backward", [written[0], given[1]], table)
            case "mul" | "div":
                yield call("mul", given[:1] * 2, written)
            case "native_dropout":
                yield Operator("native_dropout_backward", operator.outputs, operator.inputs)
            case "add" | "sub":
                pass
            case _:
                yield call("clone", given[:1], given[:1])


def pycls_passes(rows: RowsBySet) -> Iterator[MeasuredStep]:
    """Yield forward and backward of RegNets; no batch is stated of the others."""
    traces = traces_of(rows["pycls", "traces"])
    for row in rows["pycls", "pycls_v100"]:
        trace = traces.get(tuple(row[key] for key in STEP_KEY))
        if trace is not None and row["metric"] == "forward_backward_s":
            yield _of_images("pycls", "regnet", row, step_work(trace, None))


def timm_passes(rows: RowsBySet) -> Iterator[MeasuredStep]:
    """Yield steps of contiguous tensors; the host's part of batches of hundreds is hidden."""
    traces = traces_of(rows["timm", "traces"])
    for row in rows["timm", "train_step_timm_rtx3090"]:
        trace = traces.get(tuple(row[key] for key in STEP_KEY))
        if trace is not None and row["layout"] == "nchw":
            work = step_work(trace, row["optimizer"], row["precision"])
            yield _of_images("timm", row["network"], row, work)


def two_layouts(rows: RowsBySet) -> Iterator[TwoLayouts]:
    """Yield steps of timm that were measured contiguous and channels_last, a sample of each."""
    works = {
        key[:2]: step_work(trace, "momentum", "float16")
        for key, trace in traces_of(rows["timm", "traces"]).items()
    }
    sample_s: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in rows["timm", "train_step_timm_rtx3090"]:
        sample_s[row["network"], row["size"]][row["layout"]] = row["value"] / row["batch"]
    for key, by_layout in sample_s.items():
        if key in works and len(by_layout) == 2:
            ratio = by_layout["nhwc"] / by_layout["nchw"]
            yield TwoLayouts(key[0], works[key], devices()["rtx3090"], ratio)


_TORCHVISION = {"resnet50": "resnet50b", "resnet152": "resnet152b"}
"""Networks of timm that are traced as those of torchvision."""

_COMPOSED = ("efficientnet", "mobilenet")
"""Begin names of networks that are traced with activations of several operators, timm's of one."""


def timm_inference(rows: RowsBySet) -> Iterator[MeasuredStep]:
    """Yield forward passes in float16, contiguous and channels_last; norms do not see a batch."""
    traces = {
        key[:2]: (key[2], trace) for key, trace in traces_of(rows["timm", "infer_traces"]).items()
    }
    for (name, mapping), mapping_rows in sorted(rows.items()):
        if name != "timm" or not mapping.startswith("infer_n"):
            continue
        for row in mapping_rows:
            network = _TORCHVISION.get(str(row["network"]), str(row["network"]))
            if (network, row["size"]) not in traces or network.startswith(_COMPOSED):
                continue
            batch, trace = traces[network, row["size"]]
            work = step_work(trace, None)
            if row["layout"] == "nhwc":
                work = in_channels_last(work)
            works = tuple(
                replace(each, kind="elementwise", rows=each.rows * each.columns, columns=1)
                if each.name == "batch_norm"
                else each
                for each in work.works
            )
            yield MeasuredStep(
                f"timm_inference_{row['layout']}",
                row["network"],
                row["network"],
                batch,
                devices()[row["device"]],
                replace(work, works=works),
                1e6 * batch / row["value"],
                "inf",
            )


def _of_images(source: str, family: str, row: Fields, work: StepWork) -> MeasuredStep:
    device = devices()[row["device"].lower()]
    us = 1e6 * row["value"]
    return MeasuredStep(source, row["network"], family, row["batch"], device, work, us)


_SAILOR_TOKENS = 2048
_SAILOR_MASKED = 4
"""Place of the mask in a layer. It is filled into a view of scores in place, of which automatic
differentiation copies the gradient, its slice, and the slice again where it belongs (PyTorch,
torch/csrc/autograd/functions/tensor.cpp, `CopySlices`)."""
_COPIES_OF_SLICES = 3
_SAILOR_MODELS: Mapping[str, tuple[int, int, bool]] = {
    "OPT-350": (1024, 16, True),
    "GPT-Neo-2.7": (2560, 20, True),
    "OPT-30": (7168, 56, False),
}
"""Hidden size, heads, and whether products have TF32 where a GPU has it (by their speed)."""


def sailor_layers(rows: Sequence[Fields]) -> Iterator[MeasuredStep]:
    """Yield layers; of tensor-parallel ranks only those without, whose passes wait for none."""
    keys = ("model", "device", "batch", "tensor_parallel")
    for (model, name, batch, ranks), times_s in by_subject(rows, *keys).items():
        if ranks > 1:
            continue
        hidden, heads, is_tf32 = _SAILOR_MODELS[model]
        device = devices()[name]
        forward = _sailor_layer(batch, hidden, heads, is_opt=model.startswith("OPT"))
        square = forward[_SAILOR_MASKED].outputs[0]
        copies = [Operator("clone", (square,), (square,))] * _COPIES_OF_SLICES
        works = [work_of(each) for each in (*forward, *backward_of(forward), *copies)]
        if is_tf32 and "tf32" in device.peak:
            works = [in_tf32(work) for work in works]
        us = 1e6 * (times_s["forward_s"] + times_s["backward_s"])
        family = model.partition("-")[0]
        work = StepWork.of(works, [1] * len(works))
        yield MeasuredStep("sailor", model, family, batch, device, work, us)


def _sailor_layer(batch: int, hidden: int, heads: int, *, is_opt: bool) -> list[Operator]:
    """Return operators of a forward pass; layers of OPT have ReLU, and no dropout."""
    tokens, all_heads, size = batch * _SAILOR_TOKENS, batch * heads, hidden // heads
    rows: Shape = (tokens, hidden)
    wide: Shape = (tokens, 4 * hidden)
    square: Shape = (all_heads, _SAILOR_TOKENS, _SAILOR_TOKENS)
    normalized = call("native_layer_norm", [rows, (hidden,), (hidden,)], [rows])
    added = call("add", [rows, rows], [rows])
    of_heads: Shape = (all_heads, _SAILOR_TOKENS, size)
    attention = [
        call("mm", [rows, (hidden, 3 * hidden)], [(tokens, 3 * hidden)]),
        call("add", [(tokens, 3 * hidden), (3 * hidden,)], [(tokens, 3 * hidden)]),
        call("bmm", [of_heads, (all_heads, size, _SAILOR_TOKENS)], [square]),
        call("masked_fill", [square], [square]),
        call("_softmax", [square], [square]),
        call("bmm", [square, of_heads], [of_heads]),
        call("clone", [rows], [rows]),
        call("mm", [rows, (hidden, hidden)], [rows]),
    ]
    between = [
        call("mm", [rows, (hidden, 4 * hidden)], [wide]),
        call("relu" if is_opt else "gelu", [wide], [wide]),
        call("mm", [wide, (4 * hidden, hidden)], [rows]),
    ]
    dropped = [] if is_opt else dropout(rows)
    return [normalized, *attention, *dropped, added, normalized, *between, *dropped, added]
