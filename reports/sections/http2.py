"""HTTP/2 behaviour of gRPC (section 3.2.2, Figs. 3(a), 11 and 12 of the ICPE'20 paper)."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from forecasting.findings.http2 import BIN_US, CapturedStep, Http2
from reports import capture_plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.wording import DASH, share

_HEAD = (
    "profile",
    "direction",
    "WIN, first to last",
    "largest tensor",
    "streams",
    "longer than WIN",
    "suspended",
    "after, median",
    "rule holds",
    "rule holds, longer",
    "in order of requests",
    "in order of starts",
    "most open",
)


def section(found: Http2 | None) -> str:
    """Return what the streams of each captured profile did, nothing if none was captured."""
    if found is None:
        return ""
    return (
        "<h2>How gRPC sent the tensors</h2>"
        "<p>WIN is the flow-control window that the receiver announced. <em>Rule</em> is the "
        "paper's: a stream is suspended once, after WIN, if it is longer and others wait, and then "
        "sent to its end. In order: share of neighbours that came in the order in which they were "
        "asked for, and in which their records start.</p>"
        f"{table(_HEAD, [_row(row) for row in found.behaviours.to_dicts()])}<p></p>"
        f"{grid([*_windows(found.announced), *_step(found.step)])}"
    )


def _row(row: dict[str, Any]) -> list[Cell]:
    first, last = _size(row["first_window_bytes"]), _size(row["window_bytes"])
    shares = ("rule_holds", "rule_holds_longer", "in_order_of_requests", "in_order_of_starts")
    return [
        Cell(row["title"], is_number=False),
        Cell(row["direction"], is_number=False),
        Cell(first if first == last else f"{first} to {last}", value=row["first_window_bytes"]),
        _sized(row["largest_bytes"]),
        *(Cell(str(row[name])) for name in ("streams", "longer", "suspended")),
        _sized(row["first_service_bytes"]),
        *(Cell(share(row[name])) for name in shares),
        Cell(str(row["most_open"])),
    ]


def _sized(size_bytes: float | None) -> Cell:
    return Cell(_size(size_bytes), value=size_bytes)


def _size(size_bytes: float | None) -> str:
    if size_bytes is None:
        return DASH
    return f"{size_bytes / 2**20:.3g} MiB" if size_bytes >= 2**15 else f"{size_bytes:.0f} B"


def _windows(announced: Mapping[str, pl.DataFrame]) -> list[tuple[str, str]]:
    """Return WIN over time, by network."""
    if not announced:
        return []
    figure = capture_plots.windows(announced)
    described = "Flow-control window of the downlink by seconds since its first announcement"
    return [("WIN as the worker announced it", captioned(figure, described, "Downlink."))]


def _step(captured: CapturedStep | None) -> list[tuple[str, str]]:
    """Return the streams of a step, and what its links carried."""
    if captured is None:
        return []
    step, down = captured.step, captured.downlink
    streams = down["stream"].n_unique()
    return [
        (
            f"Streams of one downlink, {captured.title}",
            captioned(
                capture_plots.multiplexing(down),
                f"When each of {streams} streams was sent in traced step {step}; "
                f"{down.height - streams} interruptions",
                f"Traced step {step}: the one with most pieces.",
            ),
        ),
        (
            f"What the link carried in a step, {captured.title}",
            captioned(
                capture_plots.link_use(captured.carried, BIN_US),
                f"Megabits per second on the worker's link during traced step {step}",
                f"Traced step {step}, over {BIN_US // 1000} ms at a time.",
            ),
        ),
    ]
