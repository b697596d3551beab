"""Chrome timelines of TensorFlow (`generate_chrome_trace_format`) → operation, edge, timing.

A process of the timeline is a device; an event of category Op is one execution of the node that
its args name. Tensors, counters and flow arrows are not kept: edges come from the args' inputs.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profilers.readers.imported import Imported, Options
from profilers.readers.json_stream import Members
from profilers.readers.node_events import NodeEvent, frames
from warehouse.records import BadInput

_COMPUTE = " Compute"


def read(path: Path, options: Options) -> Iterator[Imported]:
    """Yield one run of one step.

    Raises:
        BadInput: not JSON, or no event of a TensorFlow operation in it.
    """
    devices: dict[object, str] = {}
    found: list[dict[str, Any]] = []
    for key, event in Members(path, "traceEvents"):
        if key != "traceEvents" or not isinstance(event, dict):
            continue
        if event.get("ph") == "M" and event.get("name") == "process_name":
            devices[event.get("pid")] = str(event.get("args", {}).get("name", ""))
        elif event.get("ph") == "X" and "op" in event.get("args", {}):
            found.append(event)
    if not found:
        raise BadInput(
            f"{path}: no event with args name and op; expected a timeline of TensorFlow (for "
            "PyTorch's traces, the format is kineto)"
        )
    try:
        events = [_event(event, devices.get(event["pid"], "")) for event in found]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"{path}: an event's {error} is missing or of another kind; expected what TensorFlow's "
            "generate_chrome_trace_format writes"
        ) from None
    yield Imported(frames(events), {"devices": len({event.device for event in events})})


def _event(event: dict[str, Any], process: str) -> NodeEvent:
    args = event["args"]
    names = (f"input{i}" for i in itertools.count())
    inputs = tuple(args[name] for name in itertools.takewhile(args.__contains__, names))
    return NodeEvent(
        device=process.removesuffix(_COMPUTE),
        name=args["name"],
        type=args["op"],
        inputs=inputs,
        start_us=round(event["ts"]),
        duration_us=round(event["dur"]),
        launched="stream" in process,
    )
