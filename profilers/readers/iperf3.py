"""Reports of `iperf3 --json` → table `link`.

The client counts as worker, the other end as server, as in our own probe of links: what the
client sends is uplink, what it receives (`--reverse`) downlink. Figures are the receiver's.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from profilers.readers.imported import Imported, Options, read_text
from warehouse.records import BadInput


def read(path: Path, options: Options) -> Iterator[Imported]:
    """Yield one run; each report in the file is a trial of its direction and number of flows.

    A file holds one report, several behind each other or in a list, or what `--json-stream`
    writes.

    Raises:
        BadInput: not a report of iperf3 over TCP, or one that says that iperf3 failed.
    """
    reports = list(_reports(path, read_text(path)))
    rows: list[dict[str, Any]] = []
    trials: Counter[tuple[str, int]] = Counter()
    try:
        for report in reports:
            rows += _flows(path, report, trials)
        start = reports[0]["start"]
        test = start["test_start"]
        yield Imported(
            {"link": pl.DataFrame(rows, schema_overrides={"retransmits": pl.Int32})},
            {
                "seconds": test["duration"],
                "omit_seconds": test.get("omit"),
                "congestion_control": reports[0]["end"].get("sender_tcp_congestion"),
                "reports": len(reports),
            },
            {"system": start["system_info"]} if start.get("system_info") else {},
            {"iperf3": start["version"].removeprefix("iperf ")},
            datetime.fromtimestamp(start["timestamp"]["timesecs"], UTC),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"{path}: key {error} is missing or of another kind; expected what iperf3 --json writes"
        ) from None


def _reports(path: Path, text: str) -> Iterator[Any]:
    decoder, at, streamed = json.JSONDecoder(), 0, dict[str, Any]()
    while rest := len(text[at:].lstrip()):
        at = len(text) - rest
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise BadInput(
                f"{path} line {error.lineno}: not JSON ({error.msg}); run iperf3 with --json"
            ) from None
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, dict):
                raise BadInput(f"{path}: expected a report of iperf3, found {one!r:.40}")
            if "error" in one or one.get("event") == "error":
                said = one.get("error", one.get("data"))
                raise BadInput(f"{path}: iperf3 failed there ({said}); nothing to import")
            if "event" in one:
                streamed[str(one["event"])] = one.get("data")
                if one["event"] == "end":
                    yield dict(streamed)
            else:
                yield one
    if at == 0:
        raise BadInput(f"{path} is empty; expected what iperf3 --json writes")


def _flows(
    path: Path, report: Mapping[str, Any], trials: Counter[tuple[str, int]]
) -> Iterator[dict[str, Any]]:
    test = report["start"]["test_start"]
    if test["protocol"] != "TCP":
        raise BadInput(f"{path}: measures {test['protocol']}; expected a TCP test")
    directions: dict[str, list[Any]] = {}
    for stream in report["end"]["streams"]:
        sent_by_client = stream["sender"].get("sender", not test.get("reverse", 0))
        directions.setdefault("uplink" if sent_by_client else "downlink", []).append(stream)
    for direction, streams in directions.items():
        trial = trials[direction, len(streams)]
        trials[direction, len(streams)] += 1
        for flow, stream in enumerate(streams):
            received = stream["receiver"]
            yield {
                "direction": direction,
                "flows": len(streams),
                "flow": flow,
                "trial": trial,
                "seconds": float(received["seconds"]),
                "bytes": received["bytes"],
                "bandwidth_Bps": received["bits_per_second"] / 8,
                "retransmits": stream["sender"].get("retransmits"),
            }
