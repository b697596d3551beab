"""Public measurements of GPUs, as calls that were timed and steps that were measured.

Rows are those of `data/public`, as the history has them. An operator of a profiled step on the H100
is told by its name and the sides of its tensors, so the trace of that step says which types it has;
where several calls of a row differ in type, its time is shared in proportion to their rooflines.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import polars as pl

from models.gpu_step.device import Device, devices
from models.gpu_step.gpu_time import FLOOR_US, Timing, roofline_us
from models.gpu_step.operator_kinds import common_name
from models.gpu_step.operators import Work, causal, work_of
from models.gpu_step.scaling import Scaling, read_collectives, read_scalings
from models.gpu_step.step import StepWork, step_work
from models.system import Tables
from networks.gpu_steps import GpuStep, Operator, Tensor
from warehouse.records import Optimizer, Precision

Fields = Mapping[str, Any]
Shape = tuple[int, ...]
_SETS = {
    "gpu_h100": "measured for this project",
    "neusight": "sitar-lab/NeuSight",
    "pycls": "facebookresearch/pycls",
    "timm": "huggingface/pytorch-image-models",
    "transformers": "DebarghaG/estimate-train-time",
    "nvidia": "NVIDIA/DeepLearningExamples",
    "sia": "Pollux and Sia artifacts",
    "lambda": "lambdal/lambda-tensorflow-benchmark",
    "mpt": "mosaicml/llm-foundry",
    "nccl_tests_aws": "aws-samples/awsome-distributed-training",
}
"""How sources of the sets begin."""
_REPEATS = "Activity Buffer Request"
"""Rows that repeat times of others."""
_SLOWED = ("NVIDIA_A100-PCIE-40GB", ("bert_large", "gpt2_large"))
"""A device of neusight, and models whose inference ran there at lower clocks: no fits."""
_LAUNCH_US = 8.0
"""Launch and event in times of transformer_operators_a100; calls below `_SHORT_US` are left out."""
_SHORT_US = 30.0
_CAUSAL = ("gpt2", "opt", "qwen2")
"""How networks begin whose attention is causal; that of BART's decoder has a mask in traces."""
_MANY_FLOORS = 3.0
_CALLS_ALIKE = 0.6, 1.6
_DRAWN = 40
"""Calls of an operator on a device that count where their sides were drawn by chance: more of them
would outweigh those of networks."""
_OF_LAYERS = 400
"""The same, where sides are those of layers of transformers."""


@dataclass(frozen=True)
class MeasuredStep:
    """A training step that was measured on a GPU, and what it asks of it.

    `gpu_us` is the sum of its profiled operators; None: it was not profiled. `step_us` is the mean
    of steps in a loop, `synchronised_us` that of steps that were waited for one by one.
    """

    network: str
    family: str
    size: int
    batch: int
    precision: Precision
    optimizer: Optimizer
    memory_format: str
    device: Device
    work: StepWork
    trace: GpuStep
    step_us: float
    synchronised_us: float
    peak_bytes: int
    gpu_us: float | None


@dataclass(frozen=True)
class MeasuredPasses:
    """Forward, or forward and backward, of a batch: operators with how often they are called."""

    source: str
    model: str
    family: str
    mode: str
    batch: int
    sequence_length: int
    device: Device
    works: tuple[tuple[Work, float], ...]
    passes_us: float
    published_us: Mapping[str, float]


@dataclass(frozen=True)
class Speedup:
    """How many times as many samples a second half precision trains.

    `full` and `half` are a pass each, with the samples of one.
    """

    network: str
    device: Device
    sequence_length: int
    full: tuple[StepWork, int]
    half: tuple[StepWork, int]
    measured: float


@dataclass(frozen=True)
class Measurements:
    """All of it."""

    timings: tuple[Timing, ...]
    steps: tuple[MeasuredStep, ...]
    passes: tuple[MeasuredPasses, ...]
    speedups: tuple[Speedup, ...] = ()
    collectives: pl.DataFrame = field(default_factory=pl.DataFrame)
    scalings: tuple[Scaling, ...] = ()


def read_measurements(tables: Tables) -> Measurements:
    """Return what rows of `run`, `source` and `external` tell; of sets that are not there, none."""
    rows = _rows(tables)
    steps, of_steps = _h100_steps(rows)
    passes, of_passes = _passes(rows)
    timings = (
        *of_steps,
        *of_passes,
        *_ceilings(rows["gpu_h100", "ceilings"]),
        *_thinned(_benchmarks(rows["neusight", "operation_benchmarks"]), _DRAWN),
        *_thinned(_transformer_operators(rows), _OF_LAYERS),
    )
    return Measurements(
        timings,
        steps,
        (*passes, *_pycls(rows), *_timm(rows)),
        tuple(_speedups(rows)),
        read_collectives(rows),
        read_scalings(rows),
    )


def _thinned(timings: Iterable[Timing], most: int) -> Iterator[Timing]:
    """Yield `most` calls of each operator on each device, evenly spaced."""
    groups: dict[tuple[str, str], list[Timing]] = defaultdict(list)
    for timing in timings:
        groups[timing.device.name, timing.work.name].append(timing)
    for group in groups.values():
        count = min(len(group), most)
        yield from (group[place * len(group) // count] for place in range(count))


def _rows(tables: Tables) -> Mapping[tuple[str, str], list[dict[str, Any]]]:
    """Return rows by set and mapping: what a subject holds, and `metric` and `value`."""
    sources = dict(tables["source"].select("run_id", "source").iter_rows())
    rows_by_set: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    external = tables["external"].partition_by("run_id", as_dict=True)
    for run_id, config in tables["run"].sort("run_id").select("run_id", "config").iter_rows():
        source = sources.get(run_id, "")
        name = next((name for name, start in _SETS.items() if source.startswith(start)), None)
        rows = external.get((run_id,))
        if name is None or rows is None:
            continue
        rows = rows.sort("row_number", "metric").drop_nulls("value")
        subjects = rows["subject"].str.json_decode(infer_schema_length=None)
        columns = subjects.struct.unnest().with_columns(rows["metric"], rows["value"])
        rows_by_set[name, str(json.loads(config)["mapping"])] = columns.to_dicts()
    return rows_by_set


def _by_subject(rows: Sequence[Fields], *keys: str) -> dict[tuple[Any, ...], dict[str, float]]:
    """Return the metrics of each subject."""
    metrics: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    for row in rows:
        metrics[tuple(row[key] for key in keys)][row["metric"]] = row["value"]
    return metrics


# gpu_h100: steps, their operators and their traces.


_STEP = ("network", "size", "batch", "precision")


def _h100_steps(
    rows: Mapping[tuple[str, str], list[dict[str, Any]]],
) -> tuple[tuple[MeasuredStep, ...], list[Timing]]:
    traces = _traces(rows["gpu_h100", "traces"])
    profiled: dict[tuple[Any, ...], list[Fields]] = defaultdict(list)
    for row in rows["gpu_h100", "operations"]:
        if row["operation"] != _REPEATS:
            profiled[*(row[key] for key in _STEP), row["optimizer"]].append(row)
    steps: list[MeasuredStep] = []
    timings: list[Timing] = []
    keys = (*_STEP, "optimizer", "layout", "family", "device")
    for subject, metrics in _by_subject(rows["gpu_h100", "steps"], *keys).items():
        *step, optimizer, layout, family, device_name = subject
        trace = traces.get(tuple(step))
        if trace is None:
            continue
        device = devices()[device_name]
        work = step_work(trace, optimizer, step[3])
        seen = profiled.get((*step, optimizer)) if layout == "contiguous" else None
        steps.append(
            MeasuredStep(
                step[0],
                family,
                step[1],
                step[2],
                step[3],
                optimizer,
                layout,
                device,
                work,
                trace,
                1e6 * metrics["step_time_s"],
                1e6 * metrics["synchronised_step_time_s"],
                int(metrics["peak_memory_bytes"]),
                1e6 * sum(row["value"] for row in seen) if seen else None,
            )
        )
        if seen:
            timings += _profiled(seen, trace, work, device, family)
    return tuple(steps), timings


def _speedups(rows: Mapping[tuple[str, str], list[dict[str, Any]]]) -> Iterator[Speedup]:
    """Yield what NVIDIA published of one GPU; half precision is float16 where it is not traced."""
    traces = _traces(rows["nvidia", "traces"])
    keys = ("network", "device", "sequence_length")
    batches = ("batch_full", "accumulate_full", "batch_half", "accumulate_half")
    table = rows["nvidia", "training_performance_nvidia"]
    for subject, metrics in _by_subject(table, *keys, *batches).items():
        network, device, words, *sizes = subject
        passes = []
        for i, precision in enumerate(("float32", "float16")):
            samples = sizes[2 * i] // sizes[2 * i + 1]
            trace = traces.get((network, words, samples, precision))
            if trace is not None:
                tensor_cores = precision == "float32" and "tf32" in devices()[device].peak
                as_trained: Precision = "tf32" if tensor_cores else precision  # type: ignore[assignment]
                passes.append((step_work(trace, None, as_trained), samples))
        if len(passes) == 2:
            measured = metrics["samples_per_s_half"] / metrics["samples_per_s_full"]
            yield Speedup(network, devices()[device], words, passes[0], passes[1], measured)


def _traces(rows: Sequence[Fields]) -> dict[tuple[Any, ...], GpuStep]:
    operators: dict[tuple[Any, ...], dict[int, Operator]] = defaultdict(dict)
    for row in rows:
        if row["metric"] == "calls":
            given = _typed(row["inputs"])
            operator = Operator(row["operation"], given, _typed(row["outputs"]), bool(row["view"]))
            is_masked = row["network"].startswith(_CAUSAL) or any(
                tensor.dtype == "bool" for tensor in given
            )
            if is_masked and "dot_product" in row["operation"]:
                operator = causal(operator)
            operators[*(row[key] for key in _STEP),][row["number"]] = operator
    traces = {}
    for row in rows:
        if row["metric"] == "traced_peak_bytes":
            key = tuple(row[name] for name in _STEP)
            by_number, peak_bytes = operators[key], int(row["value"])
            sizes = [int(size) for size in row["parameters"].split()]
            traces[key] = GpuStep(
                tuple(by_number[number] for number in range(len(by_number))),
                tuple(map(int, row["order"].split())),
                tuple(Tensor((size,), "float32") for size in sizes),
                peak_bytes,
                # Rows do not tell gradients from activations, nor units: it is so much at most.
                without_gradients_bytes=peak_bytes,
                activation_bytes=peak_bytes - 4 * sum(sizes),
                units=(sum(sizes),),
            )
    return traces


def _typed(words: str | None) -> tuple[Tensor, ...]:
    """Return tensors of `64x3x224x224:float32;…`."""
    parts = [tensor.partition(":") for tensor in (words or "").split(";") if tensor]
    return tuple(Tensor(_shape(sides), dtype) for sides, _, dtype in parts)


def _shape(sides: str) -> Shape:
    return tuple(int(side) for side in sides.split("x") if side)


def _profiled(
    rows: Sequence[Fields], trace: GpuStep, work: StepWork, device: Device, family: str
) -> Iterator[Timing]:
    """Yield times of the operators of a profiled step whose rows can be told."""
    recorded: dict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        key = _row_key(row["operation"], row["input_shapes"])
        recorded[key][0] += row["calls"]
        recorded[key][1] += 1e6 * row["value"]
    traced: dict[tuple[Any, ...], list[tuple[Work, float]]] = defaultdict(list)
    for place, (traced_work, calls) in enumerate(zip(work.works, work.calls, strict=True)):
        if traced_work.kind == "none":
            continue
        if place < len(trace.operators):
            traced[_operator_key(trace.operators[place])].append((traced_work, calls))
        else:
            traced[(traced_work.name,)].append((traced_work, calls))
    for key, works in traced.items():
        if key not in recorded:
            continue
        calls, us = recorded[key]
        expected = sum(count for _, count in works)
        if not _CALLS_ALIKE[0] < calls / expected < _CALLS_ALIKE[1]:
            continue
        each = roofline_us([traced_work for traced_work, _ in works], [device])[0]
        total = sum(count * share_us for (_, count), share_us in zip(works, each, strict=True))
        for (traced_work, count), share_us in zip(works, each, strict=True):
            timed_us = us / calls * expected * share_us / total
            yield Timing(traced_work, device, timed_us, count, family)


def _row_key(operation: str, sides: str | None) -> tuple[Any, ...]:
    shapes = [
        tuple(int(side) for side in part.split("x"))
        for part in map(str.strip, (sides or "").split(";"))
        if part[:1].isdigit() and all(side.isdigit() for side in part.split("x"))
    ]
    return _key(common_name(operation), shapes)


def _operator_key(operator: Operator) -> tuple[Any, ...]:
    name = common_name(operator.name)
    shapes = [tensor.shape for tensor in operator.inputs]
    if name == "fill" and operator.outputs:
        shapes = [operator.outputs[0].shape]
    return _key(name, shapes)


def _key(name: str, shapes: Sequence[Shape]) -> tuple[Any, ...]:
    """Return what a row of the profiler and a traced operator have in common."""
    if name.startswith("_foreach") or name.startswith("nll"):
        return (name,)
    if name in ("cat", "clamp", "arange", "all"):
        return (name,)
    if name == "add" and (not shapes or prod(shapes[0]) == 1):
        return (name,)
    if name.startswith("attention"):
        first = 1 if name == "attention_backward" else 0
        return (name, *(prod(shape) for shape in shapes[first : first + 2]))
    chosen: Mapping[str, tuple[int, int]] = {
        "mm": (0, 2),
        "bmm": (0, 2),
        "addmm": (1, 3),
        "convolution": (0, 2),
        "convolution_backward": (0, 3),
        "gather": (0, 1),
        "batch_norm": (0, 1),
        "batch_norm_backward": (0, 1),
        "layer_norm": (0, 1),
        "layer_norm_backward": (0, 1),
    }
    if name in chosen:
        start, end = chosen[name]
        return (name, *shapes[start:end])
    if name in ("copy", "fill"):
        return (name, prod(shapes[0]) if shapes else 1)
    return (name, *sorted((prod(shape) for shape in shapes[:2]), reverse=True))


def _ceilings(rows: Sequence[Fields]) -> Iterator[Timing]:
    """Yield matrix products and convolutions that were timed by themselves, but the shortest."""
    for row in rows:
        kind, _, precision = row["operation"].rpartition("_")
        dtype = "bfloat16" if precision == "bf16" else "float32"
        us = 1e6 * row["value"]
        if kind == "matmul":
            rows_, inner, columns = _shape(row["size"])
            operator = _call("mm", [(rows_, inner), (inner, columns)], [(rows_, columns)], dtype)
        elif kind == "conv3x3":
            given = _shape(row["size"])
            channels = given[1]
            operator = _call("convolution", [given, (channels, channels, 3, 3)], [given], dtype)
        else:
            continue
        if us > 25:
            yield Timing(work_of(operator), devices()[row["device"]], us)


def _call(
    name: str, inputs: Sequence[Shape], outputs: Sequence[Shape], dtype: str = "float32"
) -> Operator:
    return Operator(
        name,
        tuple(Tensor(shape, dtype) for shape in inputs),
        tuple(Tensor(shape, dtype) for shape in outputs),
    )


# neusight: calls by themselves, and operations of passes.


_LISTS = {"add": 2, "mul": 2, "div": 2, "sub": 2}
_NAMES = {"softmax": "_softmax", "ln": "native_layer_norm", "layernorm": "native_layer_norm"}


def _benchmarks(rows: Sequence[Fields]) -> Iterator[Timing]:
    """Yield calls longer than a few times the floor, which is taken off."""
    by_device: dict[str, list[Fields]] = defaultdict(list)
    for row in rows:
        by_device[row["device"]].append(row)
    for name, device_rows in sorted(by_device.items()):
        device = devices().get(name)
        if device is None:
            continue
        times = sorted(1e6 * row["value"] for row in device_rows)
        floor_us = times[len(times) // 200]
        for row in device_rows:
            us = 1e6 * row["value"]
            operator = _benchmarked(row) if us > _MANY_FLOORS * floor_us else None
            if operator is not None:
                yield Timing(work_of(operator), device, us - floor_us + FLOOR_US)


def _benchmarked(row: Fields) -> Operator | None:
    operation, batch, rows = row["operation"], row["batch"], row["rows"]
    inner, columns = row["inner"], row["columns"]
    match operation:
        case "bmm":
            sides = [(batch, rows, inner), (batch, inner, columns)]
            return _call("bmm", sides, [(batch, rows, columns)])
        case "linear":
            given: list[Shape] = [(columns,), (rows, inner), (inner, columns)]
            return _call("addmm", given, [(rows, columns)])
        case "ln":
            return _call(_NAMES["ln"], [(rows, columns), (columns,), (columns,)], [(rows, columns)])
        case "conv":
            return _convolved(row)
    bare = operation.removesuffix("u") if operation not in ("relu", "gelu") else operation
    lists = _LISTS.get(operation, 1)
    return _call(_NAMES.get(bare, bare), [(rows, columns)] * lists, [(rows, columns)])


def _convolved(row: Fields) -> Operator:
    kernel, stride = row["kernel_size"], row["stride"]
    side = (row["input_size"] + 2 * row["padding"] - kernel) // stride + 1
    given = (row["batch"], row["in_channels"], row["input_size"], row["input_size"])
    weight = (row["out_channels"], row["in_channels"], kernel, kernel)
    written = (row["batch"], row["out_channels"], side, side)
    return _call("convolution", [given, weight], [written])


def _passes(
    rows: Mapping[tuple[str, str], list[dict[str, Any]]],
) -> tuple[tuple[MeasuredPasses, ...], list[Timing]]:
    keys = ("device", "model", "mode", "sequence_length", "batch")
    operations: dict[tuple[Any, ...], list[Fields]] = defaultdict(list)
    for row in rows["neusight", "operations"]:
        if row["metric"] == "forward_s":
            operations[tuple(row[key] for key in keys)].append(row)
    published = _by_subject(rows["neusight", "published"], *keys, "options")
    passes, timings = [], []
    for row in rows["neusight", "steps"]:
        device = devices().get(row["device"])
        key = tuple(row[name] for name in keys)
        if device is None or row["trace"] != "present" or row["options"] or row["gpus"] != 1:
            continue
        works: list[tuple[Work, float]] = []
        is_slowed = row["device"] == _SLOWED[0] and row["model"] in _SLOWED[1]
        for operation in operations[key]:
            forward = [work_of(operator) for operator in _forward(operation)]
            backward = _backward(_forward(operation)) if row["mode"] == "train" else ()
            all_works = (*forward, *map(work_of, backward))
            count = float(operation["count_in_step"])
            works += [(work, count) for work in all_works if work.kind != "none"]
            us = 1e6 * operation["value"]
            if len(forward) == 1 and us > 50 and not (is_slowed and row["mode"] == "inf"):
                timings.append(Timing(forward[0], device, us, 1.0, row["family"]))
        metrics = published.get((*key, row["options"]), {})
        passes.append(
            MeasuredPasses(
                "neusight",
                row["model"],
                row["family"],
                row["mode"],
                row["batch"],
                row["sequence_length"],
                device,
                tuple(works),
                1e6 * row["value"],
                {
                    name.removesuffix("_step_time_s"): 1e6 * seconds
                    for name, seconds in metrics.items()
                },
            )
        )
    return tuple(passes), timings


def _forward(row: Fields) -> list[Operator]:
    """Return the operator of a row; what launches nothing has none."""
    operation = row["operation"]
    given = [_shape(text) for text in (row["input_shapes"] or "").split(";") if text]
    written = [_shape(text) for text in (row["output_shape"] or "").split(";") if text]
    if operation in ("graph_node", "bookkeeping") or not given:
        return []
    match operation:
        case "dropout":
            return _dropout(given[0]) if row["mode"] == "train" else []
        case "linear":
            left = given[1] if len(given) == 3 else given[0]
            columns = written[0][-1] if written else given[2][-1]
            sides = [(columns,), (prod(left[:-1]), left[-1]), (left[-1], columns)]
            return [_call("addmm", sides, [(prod(left[:-1]), columns)])]
        case "matmul" | "bmm":
            if len(given) < 2:
                return []
            left, right = given[:2]
            batch = prod(left[:-2])
            sides = [(batch, *left[-2:]), (batch, *right[-2:])]
            return [_call("bmm", sides, [(batch, left[-2], right[-1])])]
        case "embedding":
            return [_call("embedding", [(1, written[0][-1]), given[0]], written)]
    if not written:
        return []
    others = {"copy": "clone", "cast": "_to_copy"}
    name = _NAMES.get(operation) or others.get(operation) or str(operation)
    return [_call(name, given, written[:1])]


def _dropout(shape: Shape) -> list[Operator]:
    """Return dropout as it is trained: it writes which elements it keeps, too."""
    given, kept = Tensor(shape, "float32"), Tensor(shape, "bool")
    return [Operator("native_dropout", (given,), (given, kept))]


_VOCABULARY = 30_000
"""Rows of a table of words, which the source does not name."""


def _backward(forward: Sequence[Operator]) -> Iterator[Operator]:
    """Yield operators of the backward pass: products for both sides, bytes of the others."""
    for operator in forward:
        written = [output.shape for output in operator.outputs]
        given = [tensor.shape for tensor in operator.inputs]
        match operator.name:
            case "addmm":
                (_, (rows, inner), (_, columns)) = given
                yield _call("mm", [(rows, columns), (columns, inner)], [(rows, inner)])
                yield _call("mm", [(columns, rows), (rows, inner)], [(columns, inner)])
                yield _call("sum", written, [(1, columns)])
                yield _call("add", [(columns, inner)] * 2, [(columns, inner)])
            case "bmm":
                ((batch, rows, inner), (_, _, columns)) = given
                yield _call("bmm", [(batch, rows, columns), (batch, columns, inner)], [given[0]])
                yield _call("bmm", [(batch, inner, rows), (batch, rows, columns)], [given[1]])
            case "_softmax":
                yield _call("_softmax_backward_data", written * 2, written)
            case "native_layer_norm":
                yield _call("native_layer_norm_backward", given[:1] * 2, written)
            case "gelu" | "tanh" | "relu":
                yield _call(f"{operator.name}_backward", given * 2, written)
            case "embedding":
                table = [(_VOCABULARY, written[0][-1])]
                yield _call("embedding_dense_backward", [written[0], given[1]], table)
            case "mul" | "div":
                yield _call("mul", given[:1] * 2, written)
            case "native_dropout":
                yield Operator("native_dropout_backward", operator.outputs, operator.inputs)
            case "add" | "sub":
                pass
            case _:
                yield _call("clone", given[:1], given[:1])


# pycls and timm: passes and steps of networks of images whose operators are traced.


def _pycls(rows: Mapping[tuple[str, str], list[dict[str, Any]]]) -> Iterator[MeasuredPasses]:
    """Yield forward and backward of RegNets; no batch is stated of the others."""
    traces = _traces(rows["pycls", "traces"])
    for row in rows["pycls", "pycls_v100"]:
        trace = traces.get(tuple(row[key] for key in _STEP))
        if trace is not None and row["metric"] == "forward_backward_s":
            yield _of_images("pycls", "regnet", row, step_work(trace, None))


def _timm(rows: Mapping[tuple[str, str], list[dict[str, Any]]]) -> Iterator[MeasuredPasses]:
    """Yield steps of contiguous tensors; the host's part of batches of hundreds is hidden."""
    traces = _traces(rows["timm", "traces"])
    for row in rows["timm", "train_step_timm_rtx3090"]:
        trace = traces.get(tuple(row[key] for key in _STEP))
        if trace is not None and row["layout"] == "nchw":
            work = step_work(trace, row["optimizer"], row["precision"])
            yield _of_images("timm", row["network"], row, work)


def _of_images(source: str, family: str, row: Fields, work: StepWork) -> MeasuredPasses:
    works = tuple(zip(work.works, work.calls.tolist(), strict=True))
    device = devices()[row["device"].lower()]
    us = 1e6 * row["value"]
    return MeasuredPasses(
        source, row["network"], family, "train", row["batch"], 0, device, works, us, {}
    )


# transformer_operators_a100: operators in float16, forward and backward.


def _transformer_operators(
    rows: Mapping[tuple[str, str], list[dict[str, Any]]],
) -> Iterator[Timing]:
    for (name, mapping), mapping_rows in sorted(rows.items()):
        if name != "transformers" or not mapping.startswith("operator_"):
            continue
        keys = sorted(mapping_rows[0].keys() - {"metric", "value"})
        for values, times in _by_subject(mapping_rows, *keys).items():
            row = dict(zip(keys, values, strict=True))
            forward_us, backward_us = 1e6 * times["forward_s"], 1e6 * times["backward_s"]
            if forward_us < _SHORT_US:
                continue
            device = devices()[row["device"]]
            forward, backward = _transformed(row)
            for operators, us in ((forward, forward_us), (backward, backward_us)):
                for operator in operators:
                    each_us = max(us / len(operators) - _LAUNCH_US, FLOOR_US)
                    yield Timing(work_of(operator), device, each_us)


_SIDES: Mapping[str, Callable[[float, float], tuple[float, float]]] = {
    "linear1": lambda dim, parts: (dim, 3 * dim / parts),
    "linear2": lambda dim, parts: (dim / parts, dim),
    "linear3": lambda dim, parts: (dim, 4 * dim / parts),
    "linear4": lambda dim, parts: (4 * dim / parts, dim),
}


def _transformed(row: Fields) -> tuple[Sequence[Operator], Sequence[Operator]]:
    """Return operators of forward and of backward; of operations that are not known, none."""

    def half(name: str, inputs: Sequence[Sequence[float]], *out: Sequence[float]) -> Operator:
        def whole(shape: Sequence[float]) -> Shape:
            return tuple(round(side) for side in shape)

        return _call(name, list(map(whole, inputs)), list(map(whole, out)), "float16")

    operation, batch, words = row["operation"], row["batch"], row["sequence_length"]
    parts, dim = row.get("tensor_parallel") or 1.0, row.get("hidden") or 0.0
    heads = row.get("heads") or 1.0
    if operation in _SIDES:
        inner, columns = _SIDES[operation](dim, parts)
        rows = batch * words
        return (
            [half("mm", [(rows, inner), (inner, columns)], (rows, columns))],
            [
                half("mm", [(rows, columns), (columns, inner)], (rows, inner)),
                half("mm", [(columns, rows), (rows, inner)], (columns, inner)),
            ],
        )
    if operation == "flash_atten":
        query = (batch, heads / parts, words, dim / heads)
        return (
            [half("_flash_attention_forward", [query] * 3, query)],
            [half("_flash_attention_backward", [query] * 5, query, query, query)],
        )
    shapes: Mapping[str, tuple[str, str]] = {
        "layernorm": ("native_layer_norm", "native_layer_norm_backward"),
        "gelu": ("gelu", "gelu_backward"),
        "softmax": ("_softmax", "_softmax_backward_data"),
    }
    if operation not in shapes:
        return (), ()
    given = {
        "layernorm": (batch, words, dim),
        "gelu": (batch, words, 4 * dim / parts),
        "softmax": (batch * heads / parts, words, words),
    }[operation]
    forward, backward = shapes[operation]
    return [half(forward, [given], given)], [half(backward, [given] * 2, given)]
