"""Executions of named graph nodes → tables `operation`, `edge` and `timing` of one step.

What TensorFlow's RunMetadata (without graphs) and Chrome timelines have in common.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

_JOB = re.compile(r"/job:(\w+).*?/task:(\d+)")
_SENT = re.compile(r"/_\d+$")


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One execution of node `name` on a device; `inputs` as in the label (`^` control, `:slot`).

    `launched` marks what a GPU's stream did, next to the event of the host that launched it.
    """

    device: str
    name: str
    type: str
    inputs: tuple[str, ...]
    start_us: int
    duration_us: int
    launched: bool = False


def frames(events: Sequence[NodeEvent]) -> Mapping[str, pl.DataFrame]:
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
    match = _JOB.search(event.device)
    job, task = (match[1], int(match[2])) if match else ("worker", 0)
    if event.type == "RecvTensor":
        return ("uplink", task) if job == "ps" else ("downlink", None)
    return ("ps", task) if job == "ps" else ("worker", None)
