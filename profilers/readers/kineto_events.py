"""Events of a trace of PyTorch's profiler that count, as columns: some 50 bytes an event."""

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import polars as pl

from profilers.readers.contract import (
    MOST,
    MOST_US,
    NO_EVENTS,
    Duration_us,
    MemoryCounter,
    OmissionCounter,
    Time_us,
    WholeNumber,
    as_json,
    clean,
    product,
)
from profilers.readers.json_stream import check_depth, convert_value
from warehouse.records import BadInput

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
_MOST_STEP_DIGITS = 9
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

_T = TypeVar("_T")
_Sizes = list[WholeNumber | list[WholeNumber | list[WholeNumber]]]


_VIEWS = re.compile("aten::(as_strided|view|_reshape_alias|alias|_unsafe_view|detach)$")
_PRODUCTS = re.compile("aten::.*(mm$|conv|attention|rnn)")
_NORMALIZATIONS = re.compile("aten::.*norm")
_WAITS = re.compile("Synchronize")
_ISSUED = ("view", "elementwise", "product", "normalization")
_STALL = 10.0
"""How many times as long as its like a launch takes from which on it waits for the GPU's queue."""


class _EventKind(msgspec.Struct):
    """What every event of a trace says of itself."""

    ph: str = ""
    cat: str | None = None


class _Arguments(msgspec.Struct):
    """Arguments of an event that count."""

    correlation: WholeNumber = _NONE
    bytes: WholeNumber = _NONE
    dims: _Sizes | None = msgspec.field(default=None, name="Input Dims")
    types: list[str] | None = msgspec.field(default=None, name="Input type")
    strides: Any = msgspec.field(default=None, name="Input Strides")
    values: Any = msgspec.field(default=None, name="Concrete Inputs")


class _Event(msgspec.Struct):
    """An event that lasts."""

    name: str
    pid: int | str
    tid: int | str
    ts: Time_us
    dur: Duration_us
    args: _Arguments | None = None


class Events:
    """Columns of the events that count: some 50 bytes an event, so large traces fit."""

    def __init__(self, path: Path) -> None:
        self.kind, self.thread = array("b"), array("i")
        self.name, self.shape = array("i"), array("i")
        self.start, self.end = array("d"), array("d")
        self.correlation, self.bytes = array("q"), array("q")
        self.processes: dict[int | str, None] = {}
        """Those of the host that have steps or operators."""
        self.left_out = OmissionCounter()
        self._kept = MemoryCounter(path)
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[int | str, int | str], int] = {}
        self._shapes: dict[str, int] = {}
        self._shape_rows: list[tuple[int, str, str, int | None]] = []
        self._steps: dict[int, tuple[float, float]] = {}

    def add(self, value: object, where: object) -> None:
        """Keep an event if it is an operator, a launch, work of the GPU or a step.

        Raises:
            BadInput: it lacks a field, has another kind of value, or is one too many.
        """
        what = convert_value(value, _EventKind, where)
        if what.ph != "X":
            if what.ph not in NO_EVENTS:
                self.left_out.add("events of phase", what.ph)
            return
        category = (what.cat or "").lower()
        kind = _KINDS.get(category)
        if kind is None and category != "user_annotation":
            self.left_out.add("events of category", what.cat or "")
            return
        event = convert_value(value, _Event, where)
        if category in ("user_annotation", "operator") and (step := _STEP.match(event.name)):
            self._keep_step(step[1], event, where)
        elif kind is not None:
            self._keep(kind, event, where)
        else:
            self.left_out.add("events of category", category)

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
        kind, name, shape = (np.array(values) for values in (self.kind, self.name, self.shape))
        launched_us, by = np.array(self.start), np.arange(len(kind))
        by[kind != _HOST] = _NONE
        launcher = self._launchers()
        for i in np.flatnonzero(kind == _GPU):
            launched_us[i], by[i] = launcher.get(self.correlation[i], (launched_us[i], _NONE))
        kept = np.flatnonzero(kind != _LAUNCH)
        by = by[kept]
        names = pl.Series([clean(name) for name in self._names], dtype=pl.String)
        types = np.where(by == _NONE, name[kept], name[by])
        shapes = pl.Series(np.where(by == _NONE, _NONE, shape[by]), dtype=pl.Int32)
        sizes = pl.Series(np.array(self.bytes)[kept], dtype=pl.Int64)
        return pl.DataFrame(
            {
                "device": pl.Series(kind[kept] == _HOST).replace_strict(
                    {True: "host", False: "gpu"}, return_dtype=pl.String
                ),
                "name": names.gather(name[kept]),
                "type": names.gather(types),
                "shape": shapes.set(shapes == _NONE, None),
                "start": np.array(self.start)[kept],
                "end": np.array(self.end)[kept],
                "asked": launched_us[kept],
                "bytes": sizes.set(sizes == _NONE, None),
            }
        )

    def shapes(self) -> pl.DataFrame:
        """Every recorded shape: shape, inputs and attributes (JSON), input_bytes or NULL."""
        schema = {
            "shape": pl.Int32,
            "inputs": pl.String,
            "attributes": pl.String,
            "input_bytes": pl.Int64,
        }
        return pl.DataFrame(self._shape_rows, schema=schema, orient="row")

    def issue_times(self) -> Mapping[str, float]:
        """Return the seconds in which the host issued operators by kind, as probe `inventory` does.

        That of an operator which launched a kernel, or made a view, is the median of times until
        the next one of its thread. `step` is what else passed in a step, medians of steps, but for
        waiting: synchronisations, and launches that take `_STALL` times their median. The profiler
        makes all of it longer: the host is at least so fast. Empty: nothing was launched.
        """
        names = list(self._names)
        launcher, on_gpu = (
            self._launchers(),
            (i for i, kind in enumerate(self.kind) if kind == _GPU),
        )
        launching = {launcher.get(self.correlation[i], (0.0, _NONE))[1] for i in on_gpu}
        issued: list[tuple[int, float, str]] = []
        for i, kind in enumerate(self.kind):
            name = names[self.name[i]]
            if kind == _HOST and (i in launching or _VIEWS.match(name)):
                what = "view" if i not in launching else "elementwise"
                for other, pattern in (("product", _PRODUCTS), ("normalization", _NORMALIZATIONS)):
                    what = other if what == "elementwise" and pattern.match(name) else what
                issued.append((self.thread[i], self.start[i], what))
        last: dict[int, tuple[float, str]] = {}
        until = defaultdict[str, list[float]](list)
        for thread, start_us, what in sorted(issued, key=lambda each: each[1]):
            if thread in last:
                until[last[thread][1]].append(start_us - last[thread][0])
            last[thread] = start_us, what
        all_us = [us for some in until.values() for us in some]
        if not all_us:
            return {}
        by_kind = {kind: float(np.median(until[kind] or all_us)) for kind in _ISSUED}
        spent = [(at, by_kind[what]) for _, at, what in issued] + self._waits()
        at_us, us = np.array(sorted(spent)).T
        until_us = np.concatenate([[0.0], np.cumsum(us)])
        _, starts, ends = np.array(self.steps() or [(0, *self.span())]).T
        within = np.searchsorted(at_us, [starts, ends])
        rests = np.maximum(ends - starts - until_us[within[1]] + until_us[within[0]], 0.0)
        times_us = {**by_kind, "step": float(np.median(rests)), "parameter": 0.0}
        return {kind: 1e-6 * us for kind, us in times_us.items()}

    def _waits(self) -> list[tuple[float, float]]:
        """Return when the host began to wait for the GPU, and for how many microseconds."""
        names, by_name = list(self._names), defaultdict[str, list[tuple[float, float]]](list)
        for i, kind in enumerate(self.kind):
            if kind == _LAUNCH:
                us = self.end[i] - self.start[i]
                by_name[names[self.name[i]]].append((self.start[i], us))
        waits = []
        for name, calls in by_name.items():
            usual_us = 0.0 if _WAITS.search(name) else float(np.median([us for _, us in calls]))
            waits += [(at, us - usual_us) for at, us in calls if us > _STALL * usual_us]
        return waits

    def _keep_step(self, number: str, event: _Event, where: object) -> None:
        if len(number) > _MOST_STEP_DIGITS:
            raise BadInput(f"{where}: {event.name[:40]!r} has more digits than numbers of steps")
        self._kept.event()
        self.processes[event.pid] = None
        self._steps.setdefault(int(number), (event.ts, event.ts + event.dur))

    def _keep(self, kind: int, event: _Event, where: object) -> None:
        if event.dur > MOST_US:
            raise BadInput(f"{where}: {event.name[:40]!r} takes longer than 2,147 s")
        self._kept.event()
        args = event.args or _Arguments()
        if kind == _HOST:
            self.processes[event.pid] = None
        self.kind.append(kind)
        self.thread.append(self._number(self._threads, (event.pid, event.tid)))
        self.name.append(self._number(self._names, event.name))
        self.start.append(event.ts)
        self.end.append(event.ts + event.dur)
        self.correlation.append(args.correlation)
        self.bytes.append(args.bytes)
        self.shape.append(self._shape(args, where) if kind == _HOST else _NONE)

    def _number(self, numbers: dict[_T, int], key: _T) -> int:
        number = numbers.get(key)
        if number is None:
            self._kept.text(str(key))
            number = numbers[key] = len(numbers)
        return number

    def _shape(self, args: _Arguments, where: object) -> int:
        if args.dims is None:
            return _NONE
        others = {"strides": args.strides, "types": args.types, "values": args.values}
        known = {key: value for key, value in others.items() if value is not None}
        text = as_json([args.dims, known], where)
        number = self._shapes.get(text)
        if number is None:
            check_depth(known, where)
            self._kept.text(text)
            number = self._shapes[text] = len(self._shapes)
            sizes = _input_bytes(args.dims, args.types or [], where)
            row = (number, as_json(args.dims, where), as_json(known, where), sizes)
            self._shape_rows.append(row)
        return number

    def _launchers(self) -> dict[int, tuple[float, int]]:
        """Return for each correlation the time of its launch and the operator around it.

        A runtime call belongs to the innermost operator of its thread that is under way.
        """
        launchers: dict[int, tuple[float, int]] = {}
        for thread in self._by_thread().values():
            under_way: list[int] = []
            for i in sorted(thread, key=lambda i: (self.start[i], self.kind[i], -self.end[i])):
                while under_way and self.end[under_way[-1]] < self.start[i]:
                    under_way.pop()
                if self.kind[i] == _HOST:
                    under_way.append(i)
                elif self.correlation[i] != _NONE:
                    by = under_way[-1] if under_way else _NONE
                    launchers[self.correlation[i]] = self.start[i], by
        return launchers

    def _by_thread(self) -> dict[int, list[int]]:
        threads: dict[int, list[int]] = {}
        for i, kind in enumerate(self.kind):
            if kind != _GPU:
                threads.setdefault(self.thread[i], []).append(i)
        return threads


def _input_bytes(dims: _Sizes, types: Sequence[str], where: object) -> int | None:
    """Return the size of all tensors among the inputs; None where a type is not known."""
    total = 0
    for shape, kind in _tensors(dims, types):
        if kind not in _ELEMENT_BYTES:
            return None
        size = product([_ELEMENT_BYTES[kind], *shape])
        if size is None or total + size > MOST:
            raise BadInput(f"{where}: inputs of a size beyond 2^63 bytes")
        total += size
    return total


def _tensors(dims: _Sizes, types: Sequence[str]) -> Iterator[tuple[list[int], str]]:
    """Yield shape and element type of inputs; lists of tensors hold a list of shapes."""
    for shape, kind in zip(dims, types, strict=False):
        if isinstance(shape, list):
            sides = [side for side in shape if isinstance(side, int)]
            if len(sides) < len(shape):
                # Of a list's elements no type is recorded.
                yield [], "list of tensors"
            elif shape or kind in _ELEMENT_BYTES:
                yield sides, kind
