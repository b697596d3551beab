"""One RunMetadata file of somebody else → operation, edge, timing of one step.

With partition graphs in it, as in our own traces, operations are the nodes of the graphs, with
sizes of transfers. Without, they are the executions recorded, and edges come from their labels.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profilers.readers import run_metadata
from profilers.readers.imported import Imported, Options
from profilers.readers.node_events import NodeEvent, frames
from warehouse.records import BadInput

_LABEL = re.compile(r"(.*) = ([^(]*)\((.*)\)", re.DOTALL)


def read(path: Path, options: Options) -> Iterator[Imported]:
    """Yield one run of one step, that begins with its first operation.

    Raises:
        BadInput: not a whole RunMetadata protobuf, or nothing was timed in it.
    """
    if not path.is_file():
        raise BadInput(f"{path} is not a file; expected a serialised RunMetadata protobuf")
    metadata = run_metadata.parse(path)
    starts_us = [
        entry.all_start_micros
        for device in metadata.step_stats.dev_stats
        for entry in device.node_stats
    ]
    if not starts_us:
        raise BadInput(
            f"{path}: no operation was timed; run the session with "
            "RunOptions(trace_level=RunOptions.FULL_TRACE)"
        )
    if metadata.partition_graphs:
        trace = run_metadata.read([path], [min(starts_us)])
        tables = {"operation": trace.operation, "edge": trace.edge, "timing": trace.timing}
        yield Imported(tables, {"partition_graphs": True})
    else:
        yield Imported(frames(list(_events(metadata.step_stats))), {"partition_graphs": False})


def _events(stats: Any) -> Iterator[NodeEvent]:
    for device in stats.dev_stats:
        launched = "/stream:" in device.device
        for entry in device.node_stats:
            label = _LABEL.fullmatch(entry.timeline_label)
            name, kind, inputs = entry.node_name, "unknown", ""
            if launched:
                # Kernels are named node:type.
                name, _, kind = entry.node_name.partition(":")
            elif name == "RecvTensor":
                kind = name
            elif label:
                kind, inputs = label[2], label[3]
            yield NodeEvent(
                device=device.device,
                name=name,
                type=kind or "unknown",
                inputs=tuple(filter(None, inputs.split(", "))),
                start_us=entry.all_start_micros,
                duration_us=entry.all_end_rel_micros,
                launched=launched,
            )
