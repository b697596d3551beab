"""Executions of named graph nodes → tables `operation`, `edge` and `timing` of one step.

What TensorFlow's RunMetadata (without graphs) and Chrome timelines have in common.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import polars as pl

from profilers.readers.contract import MOST_US, MemoryCounter
from warehouse.records import BadInput

REPEATED = "executions listed in a second lane of their GPU"
ONE_FILE_EACH = "several runs of a session? Write a file for each"
_SENT = re.compile(r"/_\d+$")
_TRANSFER, _UNKNOWN = "RecvTensor", "unknown"


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One execution of node `name` on a device; `inputs` as in the label (`^` control, `:slot`)."""

    device: str
    name: str
    type: str
    inputs: tuple[str, ...]
    start_us: int
    duration_us: int

    @property
    def launched(self) -> bool:
        """Whether a GPU's stream did it, next to the event of the host that launched it."""
        return gpu_of(self.device) is not None


class NodeEvents:
    """The executions in one file: their number is bounded, and equal texts are kept once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = MemoryCounter(path)
        self._texts: dict[str, str] = {}
        self._events: list[NodeEvent] = []

    def add(self, event: NodeEvent, where: object) -> None:
        """Keep an execution.

        Raises:
            BadInput: it is one too many, or takes longer than a column holds.
        """
        if not 0 <= event.duration_us <= MOST_US:
            raise BadInput(
                f"{where}: {event.name[:80]!r} takes {event.duration_us} us; expected 0 to "
                f"{MOST_US}"
            )
        self._kept.event(1 + len(event.inputs))
        self._events.append(
            NodeEvent(
                self._text(event.device),
                self._text(event.name),
                self._text(event.type),
                tuple(map(self._text, event.inputs)),
                event.start_us,
                event.duration_us,
            )
        )

    def take_once(self) -> int:
        """Take executions once that several lanes of a GPU list; return how many were too many."""
        kept = list(_once(self._events))
        repeated = len(self._events) - len(kept)
        self._events = kept
        return repeated

    def __len__(self) -> int:
        return len(self._events)

    def devices(self) -> int:
        """Return on how many devices they ran."""
        return len({event.device for event in self._events})

    def rename(self, devices: Mapping[str, str]) -> None:
        """Give devices the names that others have for them; without one, a device has no name."""
        self._events = [
            replace(event, device=devices.get(event.device, "")) for event in self._events
        ]

    def frames(self) -> Mapping[str, pl.DataFrame]:
        """Return the tables of all executions, as `frames` does.

        Raises:
            BadInput: they cannot be of one step.
        """
        _check_one_run(self._events, self._path)
        starts = [event.start_us for event in self._events]
        if max(starts) - min(starts) > MOST_US:
            raise BadInput(f"{self._path}: more than 2,147 s between operations; {ONE_FILE_EACH}")
        try:
            return frames(self._events)
        except BadInput as error:
            raise BadInput(f"{self._path}: {error}") from None

    def _text(self, text: str) -> str:
        interned = self._texts.get(text)
        if interned is None:
            self._kept.text(text)
            interned = self._texts[text] = text
        return interned


def _once(events: Sequence[NodeEvent]) -> Iterator[NodeEvent]:
    """Yield executions; those of a GPU as often as its streams, or a lane of several, list them."""
    listed: dict[tuple[object, ...], Counter[str]] = {}
    for event in events:
        if event.launched:
            listed.setdefault(_execution(event), Counter())[event.device] += 1
    left = {
        execution: max(
            sum(count for lane, count in lanes.items() if not is_of_several(lane)),
            *(count for lane, count in lanes.items() if is_of_several(lane)),
            0,
        )
        for execution, lanes in listed.items()
    }
    for event in events:
        if event.launched:
            execution = _execution(event)
            left[execution] -= 1
            if left[execution] < 0:
                continue
        yield event


def _execution(event: NodeEvent) -> tuple[object, ...]:
    return gpu_of(event.device), event.name, event.type, event.start_us, event.duration_us


def _check_one_run(events: Sequence[NodeEvent], path: Path) -> None:
    """Refuse executions of several runs of a session, which are no step.

    A loop runs nodes again, but none without inputs, and not all nodes.
    """
    on_host = [event for event in events if not event.launched and event.type != _TRANSFER]
    ran = Counter((event.device, event.name) for event in on_host)
    for event in on_host:
        times = ran[event.device, event.name]
        if times > 1 and not event.inputs and event.type != _UNKNOWN:
            raise BadInput(
                f"{path}: node {event.name[:80]!r}, which has no inputs, ran {times} times; "
                f"{ONE_FILE_EACH}"
            )
    if len(ran) > 1 and min(ran.values()) > 1:
        raise BadInput(f"{path}: every node ran {min(ran.values())} times; {ONE_FILE_EACH}")


def frames(events: Iterable[NodeEvent]) -> Mapping[str, pl.DataFrame]:
    """Return the tables; operations are in order of their first start, times since the first.

    A node that ran several times (in a loop, or a transfer, which all have one name) is an
    operation each time. Edges lead from the last execution of what a label names as an input;
    inputs that nothing executed before (they crossed devices unseen) have none.
    """
    events = sorted(events, key=lambda event: event.start_us)
    began = events[0].start_us
    edges = set[tuple[int, int]]()
    on_host: dict[str, int] = {}
    for target, event in enumerate(events):
        # What a stream does waits for the operation of that name on the host.
        names = (event.name,) if event.launched else event.inputs
        sources = {_source(name, on_host) for name in names}
        edges |= {(source, target) for source in sources if source is not None}
        if not event.launched:
            on_host[event.name] = target
    places = [_place(event) for event in events]
    operation = pl.DataFrame(
        {
            "operation": range(len(events)),
            "name": [event.name for event in events],
            "type": [event.type for event in events],
            "resource": [resource for resource, _ in places],
            "server": [server for _, server in places],
            "size_bytes": [None] * len(events),
            "device": ["gpu" if "gpu" in event.device.lower() else "host" for event in events],
        },
        schema_overrides={"server": pl.Int16, "size_bytes": pl.Int64},
    )
    timing = pl.DataFrame(
        {
            "step": [0] * len(events),
            "operation": range(len(events)),
            "start_us": [event.start_us - began for event in events],
            "duration_us": [event.duration_us for event in events],
        }
    )
    edge = pl.DataFrame(
        sorted(edges), schema={"source": pl.Int32, "target": pl.Int32}, orient="row"
    )
    return {"operation": operation, "edge": edge, "timing": timing}


def _source(label: str, on_host: Mapping[str, int]) -> int | None:
    """Return the execution an input names; TensorFlow renames copies `…/_12`."""
    name = label.removeprefix("^").partition(":")[0]
    execution = on_host.get(name)
    return on_host.get(_SENT.sub("", name)) if execution is None else execution


def _place(event: NodeEvent) -> tuple[str, int | None]:
    """Return the resource, and the server where one computes; a transfer is its receiver's."""
    job, task = job_and_task(event.device) or ("worker", 0)
    if event.type == _TRANSFER:
        return ("uplink", task) if job == "ps" else ("downlink", None)
    return ("ps", task) if job == "ps" else ("worker", None)


# Names of TensorFlow's devices: `/job:ps/replica:0/task:1/device:CPU:0`, `/gpu:0/stream:all`.


_JOB = re.compile(r"job:(\w+)")
_TASK = re.compile(r"/task:(\d+)")
_LANE = re.compile(r"/stream:|/memcpy")
_MOST_TASK = 2**15 - 1


@lru_cache(maxsize=1024)
def job_and_task(device: str) -> tuple[str, int] | None:
    """Return job and task of a device; None: its name lacks one of them.

    Two searches: one pattern for both needs the third power of the name's length to find nothing.

    Raises:
        BadInput: the number of the task does not fit its column.
    """
    job = _JOB.search(device)
    task = _TASK.search(device, job.end()) if job else None
    if job is None or task is None:
        return None
    if len(task[1]) > 5 or int(task[1]) > _MOST_TASK:
        raise BadInput(f"device {device[:80]!r} is of a task beyond {_MOST_TASK}")
    return job[1], int(task[1])


@lru_cache(maxsize=1024)
def gpu_of(device: str) -> str | None:
    """Return the GPU of a lane of its executions (a stream, all streams, copies); None: no lane."""
    lane = _LANE.search(device)
    return device[: lane.start()] if lane else None


def is_of_several(device: str) -> bool:
    """Return whether a lane repeats what single streams have: all of it, or all copies."""
    return "/stream:all" in device or "/memcpy" in device
