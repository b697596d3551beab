"""HTTP/2 frames of one connection of a traced job → which stream carried which tensor.

The receiver of a tensor asks for it by gRPC, RecvTensor; the request names both devices and the
edge of the partition graphs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from profilers.readers.http2 import Frame
from profilers.readers.tcp import Endpoint, Flow

_TASK = rb"/job:(\w+)/replica:\d+/task:(\d{1,4})/[^;]*"
_KEY = re.compile(_TASK + rb";[0-9a-f]+;" + _TASK + rb";(edge_[^;]+);")
_OTHER = -1
"""The operation of an edge that the trace does not have."""
_DIRECTIONS = {(b"ps", b"worker"): "downlink", (b"worker", b"ps"): "uplink"}


@dataclass
class TracedStream:
    """What is known of one stream: who asked for which operation when, and its answer's data."""

    asked_us: int
    operation: int | None = None
    size_bytes: int = 0
    first_us: int = 0
    last_us: int = 0
    segments: int = 0

    def take(self, frame: "Sent", *, resumed: bool) -> None:
        if not self.segments:
            self.first_us = frame.first_us
        self.size_bytes += frame.length_bytes
        self.last_us = max(self.last_us, frame.last_us)
        self.segments += resumed


class Sent(NamedTuple):
    """A frame without its payload, who sent it, and the operation whose tensor it asks for."""

    sender: Endpoint
    type: str
    stream: int
    length_bytes: int
    first_us: int
    last_us: int
    value: int | None
    asks_for: int | None


@dataclass
class TracedConnection:
    """Frames of one connection in order of time."""

    frames: list[Sent] = field(default_factory=list)
    between: tuple[str, int, int] | None = None
    """Direction in which its tensors go, worker and server; None while no tensor was asked for."""
    sends_tensors: Endpoint | None = None

    def add(self, flow: Flow, frame: Frame, transfers: Mapping[str, int]) -> None:
        key = None if flow[0] == self.sends_tensors else _key(frame)
        asks_for = None if key is None else transfers.get(key[5].decode(errors="replace"), _OTHER)
        said = frame.type, frame.stream, frame.length_bytes, frame.first_us, frame.last_us
        self.frames.append(Sent(flow[0], *said, frame.value, asks_for))
        if self.between is None and key is not None:
            source, source_task, target, target_task, _ = key.groups()
            direction = _DIRECTIONS.get((source, target))
            if direction is not None:
                ends = int(source_task), int(target_task)
                server, worker = ends if direction == "downlink" else ends[::-1]
                self.between, self.sends_tensors = (direction, worker, server), flow[1]

    def streams(self) -> dict[int, TracedStream]:
        """Streams that carried data from the end that sends tensors, by number."""
        found: dict[int, TracedStream] = {}
        served = 0
        for frame in sorted(self.frames, key=lambda one: one.first_us):
            if frame.type == "HEADERS" and frame.sender != self.sends_tensors:
                found.setdefault(frame.stream, TracedStream(frame.first_us))
            stream = found.get(frame.stream)
            if frame.type != "DATA" or stream is None:
                continue
            if frame.sender == self.sends_tensors:
                stream.take(frame, resumed=frame.stream != served)
                served = frame.stream
            elif frame.asks_for is not None:
                stream.operation = None if frame.asks_for == _OTHER else frame.asks_for
        return {number: stream for number, stream in found.items() if stream.segments}


def _key(frame: Frame) -> re.Match[bytes] | None:
    return _KEY.search(frame.head) if frame.type == "DATA" else None
