"""Executions of named graph nodes → tables `operation`, `edge` and `timing` of one step.

What TensorFlow's RunMetadata (without graphs) and Chrome timelines have in common.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from profilers.readers.bounded import MOST_US
from profilers.readers.imported import Kept
from profilers.readers.tensorflow_device import gpu_of, job_and_task
from warehouse.records import BadInput

ONE_FILE_EACH = "several runs of a session? Write a file for each"
_SENT = re.compile(r"/_\d+$")
_TRANSFER = "RecvTensor"


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
        self._kept = Kept(path)
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
        self._kept.event()
        for _ in event.inputs:
            self._kept.event()
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
        starts = [event.start_us for event in self._events]
        if max(starts) - min(starts) > MOST_US:
            raise BadInput(f"{self._path}: more than 2,147 s between operations; {ONE_FILE_EACH}")
        try:
            return frames(self._events)
        except BadInput as error:
            raise BadInput(f"{self._path}: {error}") from None

    def _text(self, text: str) -> str:
        found = self._texts.get(text)
        if found is None:
            self._kept.text(text)
            found = self._texts[text] = text
        return found


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
    found = on_host.get(name)
    return on_host.get(_SENT.sub("", name)) if found is None else found


def _place(event: NodeEvent) -> tuple[str, int | None]:
    """Return the resource, and the server where one computes; a transfer is its receiver's."""
    job, task = job_and_task(event.device) or ("worker", 0)
    if event.type == _TRANSFER:
        return ("uplink", task) if job == "ps" else ("downlink", None)
    return ("ps", task) if job == "ps" else ("worker", None)
