"""Reports of `iperf3 --json` → table `link`.

The client counts as worker, the other end as server, as in our own probe of links: what the
client sends is uplink, what it receives (`--reverse`) downlink. Figures are the receiver's.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl

from profilers.readers.contract import ImportedRun, MemoryCounter, ReaderOptions
from profilers.readers.json_stream import convert_value, documents
from warehouse.records import BadInput

_ROUNDED = 0.01
"""Share by which printed bytes, seconds and bandwidth may disagree."""
_SCHEMA = {
    "direction": pl.String,
    "flows": pl.Int32,
    "flow": pl.Int32,
    "trial": pl.Int32,
    "seconds": pl.Float64,
    "bytes": pl.Int64,
    "bandwidth_Bps": pl.Float64,
    "retransmits": pl.Int32,
}

_Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Amount = Annotated[float, msgspec.Meta(ge=0, le=1e18)]


class _Sender(msgspec.Struct):
    bytes: _Amount = 0
    sender: bool | None = None
    retransmits: Annotated[int, msgspec.Meta(ge=-1, lt=1 << 31)] | None = None


class _Receiver(msgspec.Struct):
    bytes: _Count | _Amount
    bits_per_second: _Amount
    seconds: _Amount
    start: _Amount = 0
    end: _Amount | None = None


class _FlowReport(msgspec.Struct):
    sender: _Sender
    receiver: _Receiver


class _Test(msgspec.Struct):
    protocol: str
    duration: _Amount = 0
    bytes: _Count = 0
    omit: _Amount | None = None
    reverse: int = 0
    bidir: int = 0


class _Time(msgspec.Struct):
    timesecs: Annotated[float, msgspec.Meta(ge=0, lt=1 << 32)]


class _Start(msgspec.Struct):
    version: str
    timestamp: _Time
    test_start: _Test
    system_info: str = ""
    accepted_connection: dict[str, Any] | None = None


class _End(msgspec.Struct):
    streams: list[_FlowReport]
    sender_tcp_congestion: str | None = None


class _Report(msgspec.Struct):
    start: _Start
    end: _End
    intervals: list[Any] = []


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run; each report in the file is a trial of its direction and number of flows.

    A file holds one report, or several behind each other or in a list.

    Raises:
        BadInput: not a report of iperf3 over TCP, none of a test that did not fail, or bytes,
            seconds and bandwidth that contradict each other.
    """
    kept, left_out = MemoryCounter(path), Counter[str]()
    rows: list[tuple[Any, ...]] = []
    trials: Counter[tuple[str, int]] = Counter()
    count, first = 0, None
    for value, where in _reports(path, left_out):
        report = convert_value(value, _Report, where)
        first, count = first or report, count + 1
        left_out["intervals"] += len(report.intervals)
        for row in _flows(where, report, trials, left_out):
            kept.event()
            rows.append(row)
    left_out = +left_out
    if first is None or not rows:
        counts = ", ".join(f"{count} {what}" for what, count in left_out.items())
        raise BadInput(
            f"{path}: no flow with its receiver's figures ({counts or 'it is empty'}); expected "
            "what iperf3 --json writes"
        )
    test = first.start.test_start
    yield ImportedRun(
        {"link": pl.DataFrame(rows, _SCHEMA, orient="row")},
        {
            "seconds": test.duration or None,
            "bytes": test.bytes or None,
            "omit_seconds": test.omit,
            "congestion_control": first.end.sender_tcp_congestion,
            "reports": count,
        },
        {"system": first.start.system_info} if first.start.system_info else {},
        {"iperf3": first.start.version.removeprefix("iperf ")},
        datetime.fromtimestamp(first.start.timestamp.timesecs, UTC),
        left_out,
    )


def _reports(path: Path, left_out: Counter[str]) -> Iterator[tuple[Any, str]]:
    """Yield the reports of tests that did not fail, and where each stands."""
    failed, is_empty = "", True
    for value, where in documents(path):
        if not isinstance(value, dict) or "event" in value:
            raise BadInput(f"{where}: expected a report of iperf3 --json, found {value!r:.40}")
        if "error" in value:
            failed = f"{where}: iperf3 failed there ({value['error']!r:.200})"
            left_out["tests that failed"] += 1
        else:
            is_empty = False
            yield value, where
    if failed and is_empty:
        raise BadInput(f"{failed}; nothing to import")


def _flows(
    where: str, report: _Report, trials: Counter[tuple[str, int]], left_out: Counter[str]
) -> Iterator[tuple[Any, ...]]:
    test = report.start.test_start
    if test.protocol != "TCP":
        raise BadInput(f"{where}: measures {test.protocol!r:.40}; expected a TCP test")
    directions: dict[str, list[_FlowReport]] = {}
    for stream in report.end.streams:
        directions.setdefault(_direction(where, report.start, stream.sender), []).append(stream)
    for direction, streams in directions.items():
        trial = trials[direction, len(streams)]
        trials[direction, len(streams)] += 1
        for flow, stream in enumerate(streams):
            received = stream.receiver
            if stream.sender.bytes and not received.bytes:
                left_out["flows whose receiver is not in the report"] += 1
                continue
            seconds = _seconds(f"{where}, stream {flow + 1} {direction}", received)
            yield (
                direction,
                len(streams),
                flow,
                trial,
                seconds,
                int(received.bytes),
                received.bytes / seconds,
                None if stream.sender.retransmits == -1 else stream.sender.retransmits,
            )


def _direction(where: str, start: _Start, sender: _Sender) -> str:
    """Return uplink for what the client sent; each end says whether it sent itself."""
    if sender.sender is None:
        if start.test_start.bidir:
            raise BadInput(f"{where}: both ends sent, and no stream says which of them did")
        return "downlink" if start.test_start.reverse else "uplink"
    is_server = start.accepted_connection is not None
    return "uplink" if sender.sender != is_server else "downlink"


def _seconds(where: str, received: _Receiver) -> float:
    """Return the time in which bytes have the bandwidth: `seconds` may be the sender's.

    Source: iperf_api.c, iperf_print_results, divides by the receiver's time, which it prints as
    `end`, and prints the time of its own end as `seconds`.
    """
    given = [] if received.end is None else [received.end - received.start]
    given.append(received.seconds)
    bits, bps = received.bytes * 8, received.bits_per_second
    seconds = min(given, key=lambda seconds: abs(bits - bps * seconds))
    if not seconds > 0 or abs(bits - bps * seconds) > _ROUNDED * bits:
        times = ", ".join(f"{value:g}" for value in given)
        raise BadInput(
            f"{where}: {received.bytes:,} bytes are not {bps:,.0f} bit/s in any of the seconds "
            f"given ({times}); was the report altered?"
        )
    return seconds
