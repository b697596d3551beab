"""What ICPE'20 shows of asynchronous SGD: tables and figures of the papers' page."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from forecasting.findings.async_sgd import (
    BIN_US,
    FACTORS,
    SEEDS,
    SERVERS,
    SHOWN_STEPS,
    WINDOW_STEPS,
    AsyncSGDFindings,
    CapturedStep,
    Comparison,
    Convergence,
    Http2,
    OverheadLine,
    Sensitivity,
    ServerPlacement,
    TracedSteps,
    Varied,
)
from models.async_sgd.overhead import Overhead
from reports.html import Column, TableSection, caption_figure, grid, table, text_column
from reports.plots import LINEAR, MEASURED, PREDICTED, RESOURCES, blank, coloured, styled
from reports.study_sections import worker_ticks
from reports.wording import DASH, number, share, signed, spaced

TITLE = "Li et al., asynchronous SGD in TensorFlow (ICPE 2020)"
BESIDE: Mapping[str, str] = {
    "Errors by network and batch size": r"Fig\. (13|14|17|20|21)\b",
    "Other orders of transfers": r"Fig\. 1[89]\b",
    "Other numbers of servers": r"Fig\. 25\b",
}
"""Sections by title, and what of the paper's own figures stands there: place and quantity."""


def sections(findings: AsyncSGDFindings) -> Iterator[str]:
    """Yield the sections of a round in the order of the paper; some are empty."""
    yield comparisons_section(findings.comparisons)
    yield http2_section(findings.http2)
    yield traced_steps_section(findings.traced_steps)
    yield overhead_section(findings.overheads)
    yield END_TIMES.html(findings.end_times)
    yield windows_section(findings.windows)
    yield ORDERS.html(findings.orders)
    yield convergence_section(findings.convergence)
    yield servers_section(findings.servers)


# Overhead of received tensors (section 3.2.1, Fig. 10 of the ICPE'20 paper).


_OVERHEAD = (
    text_column("received by", "role"),
    text_column("node type", "node_type"),
    Column("α, ns/B", lambda line: f"{1e9 * line.alpha_s_per_byte:.2f}"),
    Column("95 %", lambda line: f"{1e9 * line.alpha_low:.2f} to {1e9 * line.alpha_high:.2f}"),
    Column("β, ms", lambda line: f"{1e3 * line.beta_s:.2f}"),
    Column("95 %", lambda line: f"{1e3 * line.beta_low:.2f} to {1e3 * line.beta_high:.2f}"),
    Column("R²", "r_squared", "{:.3f}".format),
    Column("transfers", "n", "{:,}".format),
)


def overhead_section(received: Sequence[OverheadLine]) -> str:
    """Return the fitted lines and a figure of each, nothing if there are none."""
    if not received:
        return ""
    figures = [
        (
            f"{fitted.line.node_type} as {fitted.line.role}",
            caption_figure(
                overhead_plot(fitted.rows, fitted.line),
                f"Overhead by size of tensor, {fitted.line.node_type} as {fitted.line.role}. "
                f"{1e9 * fitted.line.alpha_s_per_byte:.2f} ns/B, "
                f"{1e3 * fitted.line.beta_s:.2f} ms",
                "Bars: 10 to 90 % of a size.",
            ),
        )
        for fitted in received
    ]
    return (
        "<h2>What receiving a tensor takes beside its bytes</h2>"
        "<p>Recorded end of a transfer less its last packet, α × size + β by ordinary least "
        "squares over all captured profiles of the round. Intervals take residuals for "
        "independent and normal, which waits for a share of the processor are not: read them "
        "beside R².</p>"
        f"{table(_OVERHEAD, [fitted.line for fitted in received])}<p></p>{grid(figures)}"
    )


# HTTP/2 behaviour of gRPC (section 3.2.2, Figs. 3(a), 11 and 12 of the ICPE'20 paper).


def _size(size_bytes: float | None) -> str:
    if size_bytes is None:
        return DASH
    return f"{size_bytes / 2**20:.3g} MiB" if size_bytes >= 2**15 else f"{size_bytes:.0f} B"


def _window(row: Mapping[str, float]) -> str:
    """Return WIN, first to last."""
    first, last = _size(row["first_window_bytes"]), _size(row["window_bytes"])
    return first if first == last else f"{first} to {last}"


_HTTP2 = (
    text_column("profile", "title"),
    text_column("direction"),
    Column("WIN, first to last", _window, sorted_by="first_window_bytes"),
    Column("largest tensor", "largest_bytes", _size, sorted_by="largest_bytes"),
    Column("streams"),
    Column("longer than WIN", "longer"),
    Column("suspended"),
    Column("after, median", "first_service_bytes", _size, sorted_by="first_service_bytes"),
    Column("rule holds", "rule_holds", share),
    Column("rule holds, longer", "rule_holds_longer", share),
    Column("in order of requests", "in_order_of_requests", share),
    Column("in order of starts", "in_order_of_starts", share),
    Column("most open", "most_open"),
)


def http2_section(http2: Http2 | None) -> str:
    """Return what the streams of each captured profile did, nothing if none was captured."""
    if http2 is None:
        return ""
    return (
        "<h2>How gRPC sent the tensors</h2>"
        "<p>WIN is the flow-control window that the receiver announced. <em>Rule</em> is the "
        "paper's: a stream is suspended once, after WIN, if it is longer and others wait, and then "
        "sent to its end. In order: share of neighbours that came in the order in which they were "
        "asked for, and in which their records start.</p>"
        f"{table(_HTTP2, http2.behaviours)}<p></p>"
        f"{grid([*_windows(http2.announced), *_step(http2.step)])}"
    )


def _windows(announced: Mapping[str, pl.DataFrame]) -> list[tuple[str, str]]:
    """Return WIN over time, by network."""
    if not announced:
        return []
    described = "Flow-control window of the downlink by seconds since its first announcement"
    figure = caption_figure(windows_plot(announced), described, "Downlink.")
    return [("WIN as the worker announced it", figure)]


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
                multiplexing_plot(down),
                f"When each of {streams} streams was sent in traced step {step}; "
                f"{down.height - streams} interruptions",
                f"Traced step {step}: the one with most pieces.",
            ),
        ),
        (
            f"What the link carried in a step, {captured.title}",
            caption_figure(
                link_use_plot(captured.carried, BIN_US),
                f"Megabits per second on the worker's link during traced step {step}",
                f"Traced step {step}, over {BIN_US // 1000} ms at a time.",
            ),
        ),
    ]


# How wrong predicted ends of downlink streams are (Table 1 of the ICPE'20 paper).


END_TIMES = TableSection(
    "When tensors had arrived, forecast and captured",
    "From the recorded starts of a step's transfers, a link that sends one stream after the "
    "other at the goodput of one flow ends each of them at some moment. |that − its last "
    "packet| / (time of its last packet since the step's start), as in Table 1 of the paper.",
    (
        text_column("network", "dnn"),
        Column("average", "mean", share),
        Column("median", format=share),
        Column("95th percentile", "p95", share),
        Column("maximum", format=share),
        Column("streams", "n", "{:,}".format),
    ),
)
"""Of rows of `forecasting.packet_found.end_time_errors`."""


# When each resource is at work in traced steps (Figs. 3(b) and 4 of the ICPE'20 paper).


def traced_steps_section(traced: Sequence[TracedSteps]) -> str:
    """Return the first traced steps of each network, nothing without profiles."""
    if not traced:
        return ""
    title = f"When downlink, worker, uplink and server were at work in {SHOWN_STEPS} traced steps"
    figures = [
        (
            steps.dnn,
            caption_figure(busy_plot(steps.rows), f"{title}, {steps.label}", steps.label),
        )
        for steps in traced
    ]
    return (
        "<h2>What a profiled step consists of</h2>"
        "<p>One worker's traced steps, as TensorFlow recorded them: a "
        "transfer's record also holds waiting for the link and parsing. The client's time between "
        f"steps is left out.</p>{grid(figures)}"
    )


# Sensitivity of predictions to WIN ± 50 % (section 3.2.2 of the ICPE'20 paper).


_CHANGED = [f"WIN × {factor:g}" for factor in FACTORS]
_WINDOWS = TableSection(
    "What another flow-control window would change",
    "Predictions let no stream be suspended. What they would be under the paper's rule, "
    "with the window that the worker announced first (or 1 MiB, hypothetical, where every "
    "tensor is shorter), and half of it more or less; change against the first column. Nothing "
    "here is in the ledger.",
    (
        text_column("profile", "title"),
        text_column("WIN", lambda row: f"{row['window_bytes'] / 2**20:g} MiB, {row['window']}"),
        Column("W", "workers"),
        Column("not suspended, steps/s", "value", number),
        *(Column(name, format=signed) for name in _CHANGED),
    ),
)


def windows_section(sensitivities: Sequence[Sensitivity]) -> str:
    """Return predictions under the paper's rule; nothing if no packets were captured."""
    return _WINDOWS.html([row for sensitivity in sensitivities for row in _by_workers(sensitivity)])


def _by_workers(sensitivity: Sensitivity) -> Iterator[Mapping[str, object]]:
    """Yield a number of workers, its forecast, and by how much each window changes it."""
    for rows in sensitivity.rows.partition_by("workers", maintain_order=True):
        changed = rows.filter(pl.col("window") != "none")
        yield {
            "title": sensitivity.title,
            **changed.select("window", "window_bytes").row(0, named=True),
            **rows.select("workers", "value").row(0, named=True),
            **dict(zip(_CHANGED, changed["change_percent"], strict=True)),
        }


# Which orders of transfers were kept (sections 3.3 and 4.2, Figs. 18 and 19).


ORDERS = TableSection(
    "In which order tensors were sent",
    "Share of the pairs of a step's downlink transfers whose first packets came in the "
    "order that was enforced, and in the order in which the worker asked for them; chance is "
    "50 %. The framework enforces none.",
    (
        text_column("profile", "title"),
        text_column("order"),
        Column("kept", format=share),
        Column("pairs enforced", "pairs", "{:,}".format),
        Column("as asked for", "as_requested", share),
        Column("steps"),
    ),
)
"""Of rows of `forecasting.packet_found.kept_orders`."""


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
    figures = {
        title: [
            (
                comparison.shared,
                caption_figure(
                    comparison_plot(comparison.curves),
                    f"Examples per second by number of workers, {comparison.shared}, "
                    f"{title.lower()}",
                    "Examples/s of all workers.",
                ),
            )
            for comparison in comparisons
            if comparison.varied == varied
        ]
        for varied, title in _TITLES.items()
    }
    return "".join(f"<h2>{title}</h2>{grid(drawn)}" for title, drawn in figures.items() if drawn)


# Throughput out of the initial synchronisation, and links in use (Figs. 9, 16 and 24).


def convergence_section(convergence: Convergence | None) -> str:
    """Return measured and simulated throughput by steps; nothing if it is not known."""
    if convergence is None:
        return ""
    drifts = [
        (
            drift.dnn,
            caption_figure(
                convergence_plot(drift.measured, drift.simulated),
                f"Steps per second of all workers by steps since the start, {drift.label}",
                drift.label,
            ),
        )
        for drift in convergence.drifts
    ]
    links = [
        (
            f"{'First steps' if use.first else 'Later steps'}, {use.label}",
            caption_figure(
                active_links_plot(use.rows),
                f"When each connection had data under way, {use.label}",
                "Simulated.",
            ),
        )
        for use in convergence.links
    ]
    return (
        "<h2>How workers drift apart after the start</h2>"
        "<p>All workers start at a barrier, in the simulation too, and drift apart. Steps per "
        f"second over {WINDOW_STEPS} steps of each worker at a time; neither predictions nor "
        f"measurements count the first ones. Simulated: mean of {SEEDS} seeds.</p>{grid(drifts)}"
        f"<h2>When links are in use</h2><p>Simulated: the first steps, and later ones.</p>"
        f"{grid(links)}"
    )


# How variables are divided among servers (section 5, Fig. 23 of the ICPE'20 paper).


def _share_of_fullest(placed: ServerPlacement) -> str:
    total = sum(placed.held_bytes)
    return share(max(placed.held_bytes) / total if total else None)


_SERVERS = (
    text_column("network", "dnn"),
    Column("variables"),
    Column("servers", lambda placed: len(placed.held_bytes)),
    text_column("placement", format=spaced),
    Column("fullest server", lambda placed: f"{max(placed.held_bytes) / 1e6:.2f} MB"),
    Column("share of the fullest", _share_of_fullest),
)


def servers_section(placed: Sequence[ServerPlacement]) -> str:
    """Return the bytes on each of several servers, network by network; nothing without any."""
    if not placed:
        return ""
    figures = [
        (dnn, _balance_figure(dnn, list(placements)))
        for dnn, placements in groupby(placed, lambda placement: placement.dnn)
    ]
    return (
        "<h2>How variables are divided among servers</h2>"
        "<p>In turn, as TensorFlow places them, and each on the server that holds fewest bytes so "
        "far. As transferred: what no step sends counts as none.</p>"
        f"{table(_SERVERS, placed)}<p></p>{grid(figures)}"
    )


def _balance_figure(dnn: str, placements: Sequence[ServerPlacement]) -> str:
    held = {
        f"M={len(placed.held_bytes)}, {spaced(placed.placement)}": (
            *placed.held_bytes,
            *[0] * (max(SERVERS) - len(placed.held_bytes)),
        )
        for placed in placements
    }
    described = f"Bytes of variables on each server, {dnn}"
    return caption_figure(balance_plot(held), described, "Variables alone.")


# Figures: curves, convergence, links, balance.


@styled
def comparison_plot(curves: Mapping[str, pl.DataFrame]) -> Figure:
    """Plot examples per second by workers: predicted as lines, measured as squares.

    Frames by label have workers, predicted and measured (NULL: not known), examples per second.
    """
    figure, axes = blank()
    for color, (label, rows) in coloured(curves.items()):
        axes.plot(rows["workers"], rows["predicted"], "-o", ms=3, color=color, label=label)
        known = rows.filter(pl.col("measured").is_not_null())
        axes.plot(known["workers"], known["measured"], "s", ms=7, mfc="none", color=color)
    ticks = worker_ticks(curves.values())
    axes.set(xlabel="workers", ylabel="examples/s of all workers", xticks=ticks)
    axes.set_ylim(bottom=0)
    axes.legend(loc="best", title="line predicted, square measured", title_fontsize="small")
    return figure


@styled
def convergence_plot(measured: pl.DataFrame, simulated: pl.DataFrame) -> Figure:
    """Plot throughput by steps since the start; frames have step and steps_per_s."""
    figure, axes = blank()
    kinds = ((simulated, PREDICTED, "-", "simulated"), (measured, MEASURED, "-s", "measured"))
    for rows, color, style, label in kinds:
        axes.plot(rows["step"], rows["steps_per_s"], style, ms=5, color=color, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="steps of each worker since the start", ylabel="steps/s of all workers")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right")
    return figure


@styled
def active_links_plot(rows: pl.DataFrame) -> Figure:
    """Plot when each connection had data under way, over how many did in its direction.

    `rows` has resource, worker, server, start_s and end_s.
    """
    figure, axes = blank()
    connections = rows.select("resource", "server", "worker").unique().sort(pl.all())
    labels = []
    for place, (resource, server, worker) in enumerate(connections.iter_rows()):
        bars = rows.filter(resource=resource, server=server, worker=worker)
        spans = bars.select("start_s", pl.col("end_s") - pl.col("start_s")).rows()
        axes.broken_barh(spans, (place - 0.35, 0.7), color=RESOURCES[resource])
        labels.append(f"{resource}, server {server + 1}, worker {worker + 1}")
    axes.set_yticks(range(len(labels)), labels=labels)
    axes.invert_yaxis()
    axes.set(xlabel="seconds")
    return figure


@styled
def busy_plot(rows: pl.DataFrame) -> Figure:
    """Plot when each resource was at work in some steps, laid end to end.

    `rows` has step, resource, start_us and end_us.
    """
    figure, axes = blank()
    for place, (resource, color) in enumerate(RESOURCES.items()):
        bars = rows.filter(resource=resource)
        spans = bars.select(
            pl.col("start_us") / 1e3, (pl.col("end_us") - pl.col("start_us")) / 1e3
        ).rows()
        axes.broken_barh(spans, (place - 0.35, 0.7), color=color)
    for start_us in rows.group_by("step").agg(pl.col("start_us").min())["start_us"].sort()[1:]:
        axes.axvline(start_us / 1e3, color=LINEAR, ls=":", lw=1)
    axes.set_yticks(range(len(RESOURCES)), labels=list(RESOURCES))
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds since the first step's start")
    return figure


@styled
def balance_plot(held: Mapping[str, Sequence[int]]) -> Figure:
    """Plot the bytes of variables on each server, one bar per label, stacked by server."""
    figure, axes = blank()
    lefts = [0.0] * len(held)
    for color, (server, sizes_bytes) in coloured(enumerate(zip(*held.values(), strict=True), 1)):
        widths = [size_bytes / 1e6 for size_bytes in sizes_bytes]
        axes.barh(list(held), widths, left=lefts, color=color, label=f"server {server}")
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="variables, MB")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


# Figures of captured packets: overhead by size, windows over time, streams of a step.


@styled
def overhead_plot(rows: pl.DataFrame, line: Overhead, title: str = "") -> Figure:
    """Plot overhead against size: median and 10 to 90 % of each size, and the fitted line.

    `rows` has size_bytes and overhead_s.
    """
    figure, axes = blank(title)
    sizes = (
        rows.group_by("size_bytes")
        .agg(
            low=pl.col("overhead_s").quantile(0.1),
            median=pl.col("overhead_s").median(),
            high=pl.col("overhead_s").quantile(0.9),
        )
        .with_columns(mb=pl.col("size_bytes") / 1e6)
        .sort("mb")
    )
    axes.vlines(sizes["mb"], sizes["low"] * 1e3, sizes["high"] * 1e3, color=LINEAR, alpha=0.6)
    axes.plot(sizes["mb"], sizes["median"] * 1e3, "o", ms=4, color=MEASURED, label="median")
    ends = [0.0, float(sizes["mb"][-1])]
    fitted = [1e3 * (line.alpha_s_per_byte * 1e6 * mb + line.beta_s) for mb in ends]
    axes.plot(ends, fitted, color=PREDICTED, label="fitted line")
    axes.set(xlabel="tensor, MB", ylabel="overhead, ms")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure


@styled
def windows_plot(announced: Mapping[str, pl.DataFrame], title: str = "") -> Figure:
    """Plot WIN as announced over time; frames by label have seconds and window_bytes."""
    figure, axes = blank(title)
    latest = max((float(rows["seconds"][-1]) for rows in announced.values()), default=0.0)
    for color, (label, rows) in coloured(announced.items()):
        seconds = [*rows["seconds"], latest]
        windows_bytes = (*rows["window_bytes"], rows["window_bytes"][-1])
        mib = [window_bytes / 2**20 for window_bytes in windows_bytes]
        axes.step(seconds, mib, where="post", color=color, label=label)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="seconds since the first SETTINGS", ylabel="WIN, MiB")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@styled
def multiplexing_plot(pieces: pl.DataFrame) -> Figure:
    """Plot which stream was sent when, a row per stream in the order of their first packets.

    `pieces` is what `models.async_sgd.http2` returns; streams sent in several pieces stand out.
    """
    figure, axes = blank()
    streams = pieces.select("server", "stream").unique(maintain_order=True).with_row_index("row")
    rows = pieces.join(streams, on=["server", "stream"]).with_columns(
        suspended=pl.len().over("row") > 1
    )
    kinds = ((False, PREDICTED, "in one piece"), (True, MEASURED, "in several"))
    for suspended, color, label in kinds:
        part = rows.filter(suspended=suspended)
        start_ms = part["start_us"] / 1e3
        axes.barh(
            part["row"], (part["end_us"] - part["start_us"]) / 1e3, left=start_ms, color=color,
            label=f"{label} ({part['row'].n_unique()})",
        )  # fmt: skip
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds since the step's start", ylabel="stream, by first packet")
    axes.legend(loc="lower left")
    return figure


@styled
def link_use_plot(carried: Mapping[str, pl.DataFrame], bin_us: int) -> Figure:
    """Plot what a link carried during one step; by direction start_us of each bin, and Bps."""
    figure, axes = blank()
    for direction, rows in carried.items():
        axes.bar(
            rows["start_us"] / 1e3, rows["Bps"] * 8e-6, width=bin_us / 1e3, align="edge",
            color=RESOURCES[direction], alpha=0.6, label=direction,
        )  # fmt: skip
    axes.set(xlabel="milliseconds since the step's start", ylabel="Mb/s")
    axes.legend(loc="best")
    return figure
