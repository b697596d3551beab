"""Events of a Kineto trace as columns, and which operator of the host launched what on the GPU."""

import json
import re
from array import array
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import polars as pl

_HOST, _GPU, _LAUNCH = 0, 1, 2
_KINDS = {
    "cpu_op": _HOST,
    "operator": _HOST,
    "kernel": _GPU,
    "gpu_memcpy": _GPU,
    "gpu_memset": _GPU,
    "memcpy": _GPU,
    "memset": _GPU,
    "runtime": _LAUNCH,
    "cuda_runtime": _LAUNCH,
    "cuda_driver": _LAUNCH,
    "hip_runtime": _LAUNCH,
}
_STEP = re.compile(r"ProfilerStep\s*#(\d+)")
_NONE = -1
_ELEMENT_BYTES: Mapping[str, int] = {
    "float": 4,
    "double": 8,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "long": 8,
    "long int": 8,
    "int": 4,
    "short": 2,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
}


class Events:
    """Columns of the events that count: some 50 bytes an event, so large traces fit."""

    def __init__(self) -> None:
        self.kind, self.thread = array("b"), array("i")
        self.name, self.shape = array("i"), array("i")
        self.start, self.end = array("d"), array("d")
        self.correlation, self.bytes = array("q"), array("q")
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[object, object], int] = {}
        self._shapes: dict[str, int] = {}
        self._steps: dict[int, tuple[float, float]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Keep an event if it is an operator, a launch, work of the GPU or a step.

        Raises:
            KeyError, TypeError, ValueError: it lacks a field, or has another kind of value.
        """
        if event.get("ph") != "X":
            return
        category = str(event.get("cat", "")).lower()
        name = str(event["name"])
        step = _STEP.match(name) if category in ("user_annotation", "operator") else None
        if step is not None:
            start = float(event["ts"])
            self._steps.setdefault(int(step[1]), (start, start + float(event["dur"])))
            return
        kind = _KINDS.get(category)
        if kind is None:
            return
        args = event.get("args") or {}
        self.kind.append(kind)
        self.thread.append(
            self._threads.setdefault((event["pid"], event["tid"]), len(self._threads))
        )
        self.name.append(self._names.setdefault(name, len(self._names)))
        self.start.append(float(event["ts"]))
        self.end.append(float(event["ts"]) + float(event["dur"]))
        self.correlation.append(int(args.get("correlation", _NONE)))
        self.bytes.append(int(args.get("bytes", _NONE)))
        self.shape.append(self._shape(args) if kind == _HOST else _NONE)

    def steps(self) -> list[tuple[int, float, float]]:
        """Number, start and end of each annotated step, in order of their numbers."""
        return [(step, *self._steps[step]) for step in sorted(self._steps)]

    def span(self) -> tuple[float, float]:
        """First start and last end of all events."""
        return min(self.start), max(self.end)

    def frame(self) -> pl.DataFrame:
        """Operators and work of the GPU: device, name, type, shape, start, end, asked, bytes.

        Times are microseconds of the trace; `asked` is when the host launched it. `shape` is NULL
        where no shapes were recorded.
        """
        names = list(self._names)
        launcher = self._launchers()
        rows = []
        for i, kind in enumerate(self.kind):
            if kind == _LAUNCH:
                continue
            asked, by = launcher.get(self.correlation[i], (self.start[i], _NONE))
            if kind == _HOST:
                asked, by = self.start[i], i
            name = names[self.name[i]]
            rows.append(
                (
                    "host" if kind == _HOST else "gpu",
                    name,
                    name if by == _NONE else names[self.name[by]],
                    None if by == _NONE or self.shape[by] == _NONE else self.shape[by],
                    self.start[i],
                    self.end[i],
                    asked,
                    None if self.bytes[i] == _NONE else self.bytes[i],
                )
            )
        schema = {
            "device": pl.String,
            "name": pl.String,
            "type": pl.String,
            "shape": pl.Int32,
            "start": pl.Float64,
            "end": pl.Float64,
            "asked": pl.Float64,
            "bytes": pl.Int64,
        }
        return pl.DataFrame(rows, schema=schema, orient="row")

    def shapes(self) -> pl.DataFrame:
        """Every recorded shape: shape, inputs and attributes (JSON), input_bytes or NULL."""
        rows = []
        for text, shape in self._shapes.items():
            known = json.loads(text)
            rows.append(
                (
                    shape,
                    json.dumps(known["dims"]),
                    json.dumps({key: value for key, value in known.items() if key != "dims"}),
                    _input_bytes(known["dims"], known.get("types", [])),
                )
            )
        schema = {
            "shape": pl.Int32,
            "inputs": pl.String,
            "attributes": pl.String,
            "input_bytes": pl.Int64,
        }
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _shape(self, args: Mapping[str, Any]) -> int:
        if "Input Dims" not in args:
            return _NONE
        known = {"dims": args["Input Dims"]}
        for key, name in (
            ("types", "Input type"),
            ("strides", "Input Strides"),
            ("values", "Concrete Inputs"),
        ):
            if name in args:
                known[key] = args[name]
        return self._shapes.setdefault(json.dumps(known, sort_keys=True), len(self._shapes))

    def _launchers(self) -> dict[int, tuple[float, int]]:
        """Return for each correlation the time of its launch and the operator around it.

        A runtime call belongs to the innermost operator of its thread that is under way.
        """
        found: dict[int, tuple[float, int]] = {}
        for thread in self._by_thread().values():
            under_way: list[int] = []
            for i in sorted(thread, key=lambda i: (self.start[i], self.kind[i], -self.end[i])):
                while under_way and self.end[under_way[-1]] < self.start[i]:
                    under_way.pop()
                if self.kind[i] == _HOST:
                    under_way.append(i)
                elif self.correlation[i] != _NONE:
                    by = under_way[-1] if under_way else _NONE
                    found[self.correlation[i]] = self.start[i], by
        return found

    def _by_thread(self) -> dict[int, list[int]]:
        threads: dict[int, list[int]] = {}
        for i, kind in enumerate(self.kind):
            if kind != _GPU:
                threads.setdefault(self.thread[i], []).append(i)
        return threads


def _input_bytes(dims: Any, types: Any) -> int | None:
    """Return the size of all tensors among the inputs; None where a type is not known."""
    total = 0
    for shape, kind in _tensors(dims, types):
        if kind not in _ELEMENT_BYTES:
            return None
        total += prod(shape) * _ELEMENT_BYTES[kind]
    return total


def _tensors(dims: Any, types: Any) -> Iterator[tuple[list[int], str]]:
    """Yield shape and element type of inputs; lists of tensors hold a list of shapes."""
    for shape, kind in zip(dims, types, strict=False):
        if isinstance(shape, list) and shape and isinstance(shape[0], list):
            # Of a list's elements no type is recorded.
            yield [], "list of tensors"
        elif isinstance(shape, list) and (shape or kind in _ELEMENT_BYTES):
            yield shape, kind
