"""Operators that others timed by themselves."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from models.gpu_step.columns import FLOOR_US
from models.gpu_step.device import devices
from models.gpu_step.gpu_time import Timing
from models.gpu_step.operators import work_of
from models.gpu_step.public_rows import Fields, RowsBySet, Shape, by_subject, call, shape_of
from models.gpu_step.step import in_tf32
from networks.gpu_steps import Operator

_LAUNCH_US = 8.0
"""Launch and event in times of transformer_operators_a100; calls below `_SHORT_US` are left out."""
_SHORT_US = 30.0
_MANY_FLOORS = 3.0


def ceilings(rows: Sequence[Fields]) -> Iterator[Timing]:
    """Yield matrix products and convolutions that were timed by themselves, but the shortest."""
    for row in rows:
        kind, _, precision = row["operation"].rpartition("_")
        dtype = "bfloat16" if precision == "bf16" else "float32"
        us = 1e6 * row["value"]
        if kind == "matmul":
            rows_, inner, columns = shape_of(row["size"])
            operator = call("mm", [(rows_, inner), (inner, columns)], [(rows_, columns)], dtype)
        elif kind == "conv3x3":
            given = shape_of(row["size"])
            channels = given[1]
            operator = call("convolution", [given, (channels, channels, 3, 3)], [given], dtype)
        else:
            continue
        if us > 25:
            yield Timing(work_of(operator), devices()[row["device"]], us)


_LISTS = {"add": 2, "mul": 2, "div": 2, "sub": 2}
OPERATOR_NAMES = {
    "softmax": "_softmax",
    "ln": "native_layer_norm",
    "layernorm": "native_layer_norm",
}


def benchmarks(rows: Sequence[Fields]) -> Iterator[Timing]:
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
            return call("bmm", sides, [(batch, rows, columns)])
        case "linear":
            given: list[Shape] = [(columns,), (rows, inner), (inner, columns)]
            return call("addmm", given, [(rows, columns)])
        case "ln":
            return call(
                OPERATOR_NAMES["ln"], [(rows, columns), (columns,), (columns,)], [(rows, columns)]
            )
        case "conv":
            return _convolved(row)
    bare = operation.removesuffix("u") if operation not in ("relu", "gelu") else operation
    lists = _LISTS.get(operation, 1)
    return call(OPERATOR_NAMES.get(bare, bare), [(rows, columns)] * lists, [(rows, columns)])


def _convolved(row: Fields) -> Operator:
    kernel, stride = row["kernel_size"], row["stride"]
    side = (row["input_size"] + 2 * row["padding"] - kernel) // stride + 1
    given = (row["batch"], row["in_channels"], row["input_size"], row["input_size"])
    weight = (row["out_channels"], row["in_channels"], kernel, kernel)
    written = (row["batch"], row["out_channels"], side, side)
    return call("convolution", [given, weight], [written])


def transformer_operators(rows: RowsBySet) -> Iterator[Timing]:
    for (name, mapping), mapping_rows in sorted(rows.items()):
        if name != "transformers" or not mapping.startswith("operator_"):
            continue
        keys = sorted(mapping_rows[0].keys() - {"metric", "value"})
        for values, times in by_subject(mapping_rows, *keys).items():
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

        return call(name, list(map(whole, inputs)), list(map(whole, out)), "float16")

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


def products(rows: Sequence[Fields]) -> Iterator[Timing]:
    """Yield products in bfloat16 of aiconfigurator; the median of those who timed one."""
    times_us: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        sides = (row["device"], row["rows"], row["inner"], row["columns"])
        times_us[sides].append(1e6 * row["value"])
    for (name, count, inner, columns), several_us in times_us.items():
        given = [(count, inner), (inner, columns)]
        operator = call("mm", given, [(count, columns)], "bfloat16")
        yield Timing(work_of(operator), devices()[name], median(several_us))


_ELEMENTS = (1024, 1024, 1024)
_SQUARES: Mapping[str, tuple[str, int, int]] = {
    "mm": ("mm", 1, 8192),
    "linear": ("mm", 1, 8192),
    "addmm": ("mm", 1, 4096),
    "bmm": ("bmm", 2, 4096),
}
"""Operator of PyTorch, batch and side of products of FlagPerf."""


def kernels(rows: Sequence[Fields]) -> Iterator[Timing]:
    """Yield operators of FlagPerf: products of squares, and others of 2^30 elements."""
    for row in rows:
        name, dtype = row["operation"], row["dtype"]
        if name in _SQUARES:
            plain, batch, side = _SQUARES[name]
            shape = (batch, side, side)[plain == "mm" :]
            work = work_of(call(plain, [shape, shape], [shape], dtype))
            if name == "mm" and dtype == "float32":
                work = in_tf32(work)
        else:
            lists = 2 if name == "add" else 1
            work = work_of(call(name, [_ELEMENTS] * lists, [_ELEMENTS], dtype))
        yield Timing(work, devices()[row["device"]], 1e6 * row["value"])
