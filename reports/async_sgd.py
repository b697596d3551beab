"""Sections of the papers' page on asynchronous SGD: tables and figures of the ICPE'20 paper."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import polars as pl

from forecasting.evaluation import PaperEvaluation
from forecasting.findings.async_sgd import (
    BIN_US,
    FACTORS,
    SEEDS,
    SERVERS,
    SHOWN_STEPS,
    WINDOW_STEPS,
    CapturedStep,
    Comparison,
    Convergence,
    Drift,
    Http2,
    LinkUse,
    OverheadLine,
    Sensitivity,
    ServerPlacement,
    TracedSteps,
    Varied,
)
from models.async_sgd.overhead import Overhead
from reports import study_plots
from reports.html import Cell, caption_figure, grid, table
from reports.wording import DASH, number, percent, share

TITLE = "Li et al., asynchronous SGD in TensorFlow (ICPE 2020)"
BESIDE: Mapping[str, str] = {
    "Errors by network and batch size": r"Fig\. (13|14|17|20|21)\b",
    "Other orders of transfers": r"Fig\. 1[89]\b",
    "Other numbers of servers": r"Fig\. 25\b",
}
"""Sections by title, and what of the paper's own figures stands there: place and quantity."""


def sections(found: PaperEvaluation) -> Iterator[str]:
    """Yield the sections of a round in the order of the paper; some are empty."""
    captures = found.captures
    yield comparisons_section(found.comparisons)
    yield http2_section(captures.http2)
    yield traced_steps_section(found.traced_steps)
    yield overhead_section(captures.overheads)
    yield end_times_section(captures.end_times)
    yield windows_section(captures.windows)
    yield order_section(captures.orders)
    yield convergence_section(found.convergence)
    yield servers_section(found.servers)


# Overhead of received tensors (section 3.2.1, Fig. 10 of the ICPE'20 paper).


_HEAD = ("received by", "node type", "α, ns/B", "95 %", "β, ms", "95 %", "R²", "transfers")


def overhead_section(received: Sequence[OverheadLine]) -> str:
    """Return the fitted lines and a figure of each, nothing if there are none."""
    if not received:
        return ""
    figures = []
    for one in received:
        drawn = study_plots.overhead(one.rows, one.line)
        said = caption_figure(drawn, _described(one.line), "Bars: 10 to 90 % of a size.")
        figures.append((f"{one.line.node_type} as {one.line.role}", said))
    return (
        "<h2>What receiving a tensor takes beside its bytes</h2>"
        "<p>Recorded end of a transfer less its last packet, α × size + β by ordinary least "
        "squares over all captured profiles of the round. Intervals take residuals for "
        "independent and normal, which waits for a share of the processor are not: read them "
        "beside R².</p>"
        f"{table(_HEAD, [_row(one.line) for one in received])}<p></p>{grid(figures)}"
    )


def _row(line: Overhead) -> list[Cell]:
    return [
        Cell(line.role, is_number=False),
        Cell(line.node_type, is_number=False),
        Cell(f"{1e9 * line.alpha_s_per_byte:.2f}"),
        Cell(f"{1e9 * line.alpha_low:.2f} to {1e9 * line.alpha_high:.2f}"),
        Cell(f"{1e3 * line.beta_s:.2f}"),
        Cell(f"{1e3 * line.beta_low:.2f} to {1e3 * line.beta_high:.2f}"),
        Cell(f"{line.r_squared:.3f}"),
        Cell(f"{line.n:,}"),
    ]


def _described(line: Overhead) -> str:
    return (
        f"Overhead by size of tensor, {line.node_type} as {line.role}. "
        f"{1e9 * line.alpha_s_per_byte:.2f} ns/B, {1e3 * line.beta_s:.2f} ms"
    )


# HTTP/2 behaviour of gRPC (section 3.2.2, Figs. 3(a), 11 and 12 of the ICPE'20 paper).


_HTTP2_HEAD = (
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


def http2_section(found: Http2 | None) -> str:
    """Return what the streams of each captured profile did, nothing if none was captured."""
    if found is None:
        return ""
    return (
        "<h2>How gRPC sent the tensors</h2>"
        "<p>WIN is the flow-control window that the receiver announced. <em>Rule</em> is the "
        "paper's: a stream is suspended once, after WIN, if it is longer and others wait, and then "
        "sent to its end. In order: share of neighbours that came in the order in which they were "
        "asked for, and in which their records start.</p>"
        f"{table(_HTTP2_HEAD, [_http2_row(row) for row in found.behaviours.to_dicts()])}<p></p>"
        f"{grid([*_windows(found.announced), *_step(found.step)])}"
    )


def _http2_row(row: dict[str, Any]) -> list[Cell]:
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
    figure = study_plots.windows(announced)
    described = "Flow-control window of the downlink by seconds since its first announcement"
    return [("WIN as the worker announced it", caption_figure(figure, described, "Downlink."))]


def _step(captured: CapturedStep | None) -> list[tuple[str, str]]:
    """Return the streams of a step, and what its links carried."""
    if captured is None:
        return []
    step, down = captured.step, captured.downlink
    streams = down["stream"].n_unique()
    return [
        (
            f"Streams of one downlink, {captured.title}",
            caption_figure(
                study_plots.multiplexing(down),
                f"When each of {streams} streams was sent in traced step {step}; "
                f"{down.height - streams} interruptions",
                f"Traced step {step}: the one with most pieces.",
            ),
        ),
        (
            f"What the link carried in a step, {captured.title}",
            caption_figure(
                study_plots.link_use(captured.carried, BIN_US),
                f"Megabits per second on the worker's link during traced step {step}",
                f"Traced step {step}, over {BIN_US // 1000} ms at a time.",
            ),
        ),
    ]


# Table 1 of the ICPE'20 paper.


_END_TIMES_HEAD = ("network", "average", "median", "95th percentile", "maximum", "streams")
_STATISTICS = ("mean", "median", "p95", "maximum")


def end_times_section(rows: pl.DataFrame) -> str:
    """Return how wrong predicted ends of downlink streams are, nothing if none was captured.

    `rows` are what `forecasting.packet_captures.end_time_errors` returns.
    """
    if rows.is_empty():
        return ""
    body = [
        [
            Cell(row["dnn"], is_number=False),
            *(Cell(share(row[name])) for name in _STATISTICS),
            Cell(f"{row['n']:,}"),
        ]
        for row in rows.to_dicts()
    ]
    return (
        "<h2>When tensors had arrived, forecast and captured</h2>"
        "<p>From the recorded starts of a step's transfers, a link that sends one stream after the "
        "other at the goodput of one flow ends each of them at some moment. |that − its last "
        "packet| / (time of its last packet since the step's start), as in Table 1 of the paper."
        f"</p>{table(_END_TIMES_HEAD, body)}"
    )


# When each resource is at work in traced steps (Figs. 3(b) and 4 of the ICPE'20 paper).


def traced_steps_section(traced: Sequence[TracedSteps]) -> str:
    """Return the first traced steps of each network, nothing without profiles."""
    if not traced:
        return ""
    figures = [(one.dnn, _figure(one)) for one in traced]
    return (
        "<h2>What a profiled step consists of</h2>"
        "<p>One worker's traced steps, as TensorFlow recorded them: a "
        "transfer's record also holds waiting for the link and parsing. The client's time between "
        f"steps is left out.</p>{grid(figures)}"
    )


def _figure(traced: TracedSteps) -> str:
    described = (
        f"When downlink, worker, uplink and server were at work in {SHOWN_STEPS} traced steps, "
        f"{traced.label}"
    )
    return caption_figure(study_plots.busy(traced.rows), described, traced.label)


# Sensitivity of predictions to WIN ± 50 % (section 3.2.2 of the ICPE'20 paper).


_WINDOWS_HEAD = (
    "profile",
    "WIN",
    "W",
    "not suspended, steps/s",
    *(f"WIN × {factor:g}" for factor in FACTORS),
)


def windows_section(found: Sequence[Sensitivity]) -> str:
    """Return predictions under the paper's rule; nothing if no packets were captured."""
    if not found:
        return ""
    body = [row for one in found for row in _rows(one)]
    return (
        "<h2>What another flow-control window would change</h2>"
        "<p>Predictions let no stream be suspended. What they would be under the paper's rule, "
        "with the window that the worker announced first (or 1 MiB, hypothetical, where every "
        "tensor is shorter), and half of it more or less; change against the first column. Nothing "
        f"here is in the ledger.</p>{table(_WINDOWS_HEAD, body)}"
    )


def _rows(sensitivity: Sensitivity) -> list[list[Cell]]:
    rows = []
    for one in sensitivity.rows.partition_by("workers", maintain_order=True):
        changed = one.filter(pl.col("window") != "none")
        window, window_bytes = changed.select("window", "window_bytes").row(0)
        rows.append(
            [
                Cell(sensitivity.title, is_number=False),
                Cell(f"{window_bytes / 2**20:g} MiB, {window}", is_number=False),
                Cell(str(one["workers"][0])),
                Cell(number(one["value"][0])),
                *(Cell(percent(change, signed=True)) for change in changed["change_percent"]),
            ]
        )
    return rows


# Which orders of transfers were kept (sections 3.3 and 4.2, Figs. 18 and 19).


_ORDER_HEAD = ("profile", "order", "kept", "pairs enforced", "as asked for", "steps")


def order_section(rows: pl.DataFrame) -> str:
    """Return the share of pairs in order of each profile, nothing if none was captured.

    `rows` are what `forecasting.packet_captures.kept_orders` returns.
    """
    if rows.is_empty():
        return ""
    body = [
        [
            Cell(row["title"], is_number=False),
            Cell(row["order"], is_number=False),
            Cell(share(row["kept"])),
            Cell(f"{row['pairs']:,}"),
            Cell(share(row["as_requested"])),
            Cell(str(row["steps"])),
        ]
        for row in rows.to_dicts()
    ]
    return (
        "<h2>In which order tensors were sent</h2>"
        "<p>Share of the pairs of a step's downlink transfers whose first packets came in the "
        "order that was enforced, and in the order in which the worker asked for them; chance is "
        f"50 %. The framework enforces none.</p>{table(_ORDER_HEAD, body)}"
    )


# Curves that differ in one thing: batch (Fig. 2), order (18), link speed, servers (25).


_TITLES: Mapping[Varied, str] = {
    "batch_size": "Other batch sizes",
    "link_mbps": "Other link speeds, forecast from one profile",
    "order": "Other orders of transfers",
    "servers": "Other numbers of servers",
    "placement": "Other placements of variables",
}


def comparisons_section(comparisons: Sequence[Comparison]) -> str:
    """Return a figure of each group of curves; nothing without any."""
    return "".join(
        _of([comparison for comparison in comparisons if comparison.varied == varied], title)
        for varied, title in _TITLES.items()
    )


def _of(comparisons: Sequence[Comparison], title: str) -> str:
    figures = []
    for comparison in comparisons:
        described = (
            f"Examples per second by number of workers, {comparison.shared}, {title.lower()}"
        )
        drawn = study_plots.comparison(comparison.curves)
        figures.append(
            (comparison.shared, caption_figure(drawn, described, "Examples/s of all workers."))
        )
    return f"<h2>{title}</h2>{grid(figures)}" if figures else ""


# Throughput out of the initial synchronisation, and links in use (Figs. 9, 16 and 24).


def convergence_section(convergence: Convergence | None) -> str:
    """Return measured and simulated throughput by steps; nothing if it is not known."""
    if convergence is None:
        return ""
    return (
        "<h2>How workers drift apart after the start</h2>"
        "<p>All workers start at a barrier, in the simulation too, and drift apart. Steps per "
        f"second over {WINDOW_STEPS} steps of each worker at a time; neither predictions nor "
        f"measurements count the first ones. Simulated: mean of {SEEDS} seeds.</p>"
        f"{grid([_drift(drift) for drift in convergence.drifts])}"
        f"<h2>When links are in use</h2><p>Simulated: the first steps, and later ones.</p>"
        f"{grid([_links(link) for link in convergence.links])}"
    )


def _drift(drift: Drift) -> tuple[str, str]:
    described = f"Steps per second of all workers by steps since the start, {drift.label}"
    drawn = study_plots.convergence(drift.measured, drift.simulated)
    return drift.dnn, caption_figure(drawn, described, drift.label)


def _links(use: LinkUse) -> tuple[str, str]:
    described = f"When each connection had data under way, {use.label}"
    title = "First steps" if use.first else "Later steps"
    drawn = study_plots.active_links(use.rows)
    return f"{title}, {use.label}", caption_figure(drawn, described, "Simulated.")


# How variables are divided among servers (section 5, Fig. 23 of the ICPE'20 paper).


_SERVERS_HEAD = (
    "network",
    "variables",
    "servers",
    "placement",
    "fullest server",
    "share of the fullest",
)


def servers_section(placed: Sequence[ServerPlacement]) -> str:
    """Return the bytes on each of several servers, network by network; nothing without any."""
    if not placed:
        return ""
    figures = [
        (dnn, _balance_figure(dnn, list(found)))
        for dnn, found in groupby(placed, lambda one: one.dnn)
    ]
    return (
        "<h2>How variables are divided among servers</h2>"
        "<p>In turn, as TensorFlow places them, and each on the server that holds fewest bytes so "
        "far. As transferred: what no step sends counts as none.</p>"
        f"{table(_SERVERS_HEAD, [_servers_row(one) for one in placed])}<p></p>{grid(figures)}"
    )


def _balance_figure(dnn: str, placed: Sequence[ServerPlacement]) -> str:
    most = max(SERVERS)
    held = {
        f"M={len(one.held_bytes)}, {_rule(one)}": (
            *one.held_bytes,
            *[0] * (most - len(one.held_bytes)),
        )
        for one in placed
    }
    described = f"Bytes of variables on each server, {dnn}"
    return caption_figure(study_plots.balance(held), described, "Variables alone.")


def _servers_row(placed: ServerPlacement) -> list[Cell]:
    held, fullest = placed.held_bytes, max(placed.held_bytes)
    return [
        Cell(placed.dnn, is_number=False),
        Cell(str(placed.variables)),
        Cell(str(len(held))),
        Cell(_rule(placed), is_number=False),
        Cell(f"{fullest / 1e6:.2f} MB"),
        Cell(share(fullest / sum(held) if sum(held) else None)),
    ]


def _rule(placed: ServerPlacement) -> str:
    return placed.placement.replace("_", " ")
