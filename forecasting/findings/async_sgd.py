"""Figures of ICPE'20, asynchronous SGD in TensorFlow: errors, HTTP/2, steps, windows, servers."""

from typing import get_args

import polars as pl

from forecasting.async_sgd import (
    announced_windows,
    behaviours,
    end_time_errors,
    kept_orders,
    overhead_by_size,
    overhead_lines,
    overhead_rows,
)
from forecasting.findings.errors import errors
from forecasting.findings.figure import MeasuredRound, PaperFigure, together
from forecasting.findings.mark import Mark
from models.async_sgd.http2 import pieces
from models.async_sgd.profiles import variable_bytes
from models.async_sgd.sensitivity import (
    measured_throughput,
    simulated_throughput,
    window_sensitivity,
)
from models.async_sgd.synthetic_trace import busy_intervals
from models.async_sgd.timeline import simulate_trace
from networks.variables import held_bytes
from profilers.probe import PlannedRun
from studies import run_tables
from studies.curve import Curve
from warehouse.records import BadInput, Placement, on_images

SHOWN_STEPS = 3
WINDOW_STEPS, MOST_STEPS, SEEDS = 5, 100, 5
"""Steps of each worker that a point averages, steps that are shown, and simulations of a mean."""
PAPER_WORKERS = 3
"""Of Fig. 16."""
SERVERS = (2, 3)


def errors_by_batch(found: MeasuredRound) -> pl.DataFrame | None:
    """Return mean errors of two or more workers, by network and batch size."""
    found_errors = errors(found.round.study, found.rows)
    if found_errors is None:
        return None
    names = {name: f"{name}_percent" for name in ("mean", "absolute", "largest")}
    return found_errors.by_batch.rename(names)


def errors_by_workers(found: MeasuredRound) -> pl.DataFrame | None:
    """Return the error of each scenario of curves of several numbers of workers."""
    found_errors = errors(found.round.study, found.rows)
    return together(
        [
            rows.select(pl.lit(dnn).alias("dnn"), pl.lit(label).alias("curve"), pl.all())
            for dnn, curves in (found_errors.by_network.items() if found_errors else ())
            for label, rows in curves
        ]
    )


ERRORS = (
    PaperFigure(
        "Errors by network and batch size",
        "Of two or more workers; what was measured while the host was busy is not in it.",
        errors_by_batch,
        printed=r"Fig\. (13|14|17|20|21)\b|Table 5, caption|section 5\.3: end-to-end MAPE",
    ),
    PaperFigure(
        "Errors by number of workers",
        "Above 0: the forecast was too high.",
        errors_by_workers,
        Mark("line", "workers", ("error_percent",), of="curve", panel="dnn"),
        (),
    ),
)
"""Of a study of any paper."""


def examples_per_s(found: MeasuredRound) -> pl.DataFrame | None:
    """Return examples a second of all workers, curve by curve: Figs. 2, 18 and 25 compare these."""
    study = found.round.study
    if study.metric.name != "throughput_steps_per_s":
        return None
    return together(
        [
            found.rows.filter(curve=place).select(
                pl.lit(on_images(curve.dnn, curve.image_size)).alias("network"),
                pl.lit(_setting(curve)).alias("setting"),
                "workers",
                pl.col("predicted", "measured") * curve.batch_size,
            )
            for place, curve in enumerate(study.curves)
        ]
    )


def _setting(curve: Curve) -> str:
    """Return what curves of a network may differ in, in short."""
    speed = "" if curve.link_mbps is None else f", {curve.link_mbps:g} Mb/s"
    order = "" if curve.order == "framework" else f", order {curve.order}"
    servers = "" if curve.servers == 1 else f", {curve.servers} servers {curve.placement}"
    return f"b{curve.batch_size}{speed}{order}{servers}"


def overheads(found: MeasuredRound) -> pl.DataFrame | None:
    """Return overhead by size of tensor, and its fitted line, by receiving role and node type."""
    rows = overhead_rows(found.captured)
    return together(
        [
            overhead_by_size(rows[key], line).with_columns(
                received_by=pl.lit(f"{line.node_type} as {line.role}")
            )
            for key, line in overhead_lines(found.captured).items()
        ]
    )


def overhead_fits(found: MeasuredRound) -> pl.DataFrame | None:
    """Return the lines, with their 95 % intervals."""
    lines = overhead_lines(found.captured).values()
    return pl.DataFrame([line.model_dump() for line in lines]) if lines else None


def windows(found: MeasuredRound) -> pl.DataFrame | None:
    """Return WIN of the downlink over time, of the first captured profile of each network."""
    by_dnn: dict[str, pl.DataFrame] = {}
    for profile in found.captured:
        if (rows := announced_windows(profile, "downlink")).height:
            by_dnn.setdefault(profile.scenario.workload.dnn, rows)
    return together(
        [
            rows.select("seconds", dnn=pl.lit(dnn), window_mib=pl.col("window_bytes") / 2**20)
            for dnn, rows in by_dnn.items()
        ]
    )


def streams(found: MeasuredRound) -> pl.DataFrame | None:
    """Return when each stream of a downlink was sent: of the step that was sent in most pieces."""
    several = [profile for profile in found.captured if "downlink" in profile.directions]
    if not several:
        return None
    sent = [profile.transfers.filter(direction="downlink") for profile in several]
    most = max(range(len(sent)), key=lambda place: int((sent[place]["segments"] > 1).sum()))
    profile, by_step = several[most], sent[most].group_by("step").agg(pl.col("segments").sum())
    step = by_step.sort("segments", "step")["step"][-1]
    down = pieces(profile.transfers, profile.frames, "downlink", step)
    order = down.select("server", "stream").unique(maintain_order=True).with_row_index("place")
    is_whole = pl.len().over("place") == 1
    return down.join(order, on=["server", "stream"]).select(
        pl.lit(f"{profile.title}, step {step}").alias("step"),
        stream="place",
        start_ms=pl.col("start_us") / 1e3,
        end_ms=pl.col("end_us") / 1e3,
        sent=pl.when(is_whole).then(pl.lit("in one piece")).otherwise(pl.lit("in several pieces")),
    )


def traced_steps(found: MeasuredRound) -> pl.DataFrame | None:
    """Return when resources are at work in the first traced steps of each network."""
    by_dnn: dict[str, pl.DataFrame] = {}
    for need, run in found.round.runs_of("tf_trace").items():
        if need.scenario.workload.dnn not in by_dnn:
            tables = run_tables.tables(found.landing, run)
            rows = busy_intervals(tables["operation"], tables["timing"], SHOWN_STEPS)
            by_dnn[need.scenario.workload.dnn] = rows.select(
                pl.lit(need.scenario.label).alias("profile"),
                "resource",
                start_ms=pl.col("start_us") / 1e3,
                end_ms=pl.col("end_us") / 1e3,
            )
    return together(list(by_dnn.values()))


def window_changes(found: MeasuredRound) -> pl.DataFrame | None:
    """Return how predictions change with WIN ± 50 %: rows of `window_sensitivity`, by profile."""
    frames = []
    for profile in found.captured:
        announced = announced_windows(profile, "downlink")["window_bytes"]
        need = next(
            need
            for need, run in found.round.runs_of("tf_trace").items()
            if run.run_id == profile.run.run_id
        )
        rows = window_sensitivity(found.models[need], announced[0] if len(announced) else None)
        frames.append(rows.select(pl.lit(profile.title).alias("profile"), pl.all()))
    return together(frames)


def convergence(found: MeasuredRound) -> pl.DataFrame | None:
    """Return throughput by steps since the start, measured and simulated, of each network.

    It is of the measured run with most like the paper's workers, two or more.
    """
    by_dnn: dict[str, PlannedRun] = {}
    for need in found.round.runs_of("tf_throughput"):
        best = by_dnn.get(need.scenario.workload.dnn)
        if need.scenario.strategy.workers > 1 and (
            best is None or _distance(need) < _distance(best)
        ):
            by_dnn[need.scenario.workload.dnn] = need
    return together([rows for need in by_dnn.values() if (rows := _drift(found, need)) is not None])


def _distance(need: PlannedRun) -> int:
    return abs(need.scenario.strategy.workers - PAPER_WORKERS)


def _drift(found: MeasuredRound, need: PlannedRun) -> pl.DataFrame | None:
    model = found.models.of_curve(found.round.study.curve_of(need.scenario, found.round.backend))
    run = found.round.run_of(need)
    if model is None or run is None:
        return None
    steps = run_tables.table(found.landing, run, "step")
    seen = measured_throughput(steps, WINDOW_STEPS).head(MOST_STEPS // WINDOW_STEPS)
    if seen.is_empty():
        return None
    count = WINDOW_STEPS * (seen.height + 1)
    made = pl.concat(
        simulated_throughput(
            simulate_trace(model, need.scenario, steps=count, seed=seed), WINDOW_STEPS
        ).head(seen.height)
        for seed in range(SEEDS)
    )
    means = made.group_by("step").agg(simulated=pl.col("steps_per_s").mean())
    return (
        seen.rename({"steps_per_s": "measured"})
        .join(means, on="step", how="left")
        .select(pl.lit(need.scenario.label).alias("scenario"), "step", "measured", "simulated")
        .sort("step")
    )


def servers(found: MeasuredRound) -> pl.DataFrame | None:
    """Return how the variables of each network are divided among servers, by every rule."""
    by_dnn: dict[str, tuple[int, ...]] = {}
    for need, run in found.round.runs_of("tf_trace").items():
        if need.scenario.workload.dnn not in by_dnn:
            operations = run_tables.table(found.landing, run, "operation")
            try:
                sizes_bytes = variable_bytes(found.models[need].profile, operations)
            except BadInput:
                continue
            by_dnn[need.scenario.workload.dnn] = sizes_bytes
    placements: tuple[Placement, ...] = get_args(Placement)
    rows = [
        {
            "network": dnn,
            "variables": len(sizes_bytes),
            "servers": count,
            "placement": placement,
            "fullest_mb": max(held) / 1e6,
            "fullest_percent": 100 * max(held) / sum(held) if sum(held) else None,
        }
        for dnn, sizes_bytes in by_dnn.items()
        for count in SERVERS
        for placement in placements
        for held in [held_bytes(sizes_bytes, count, placement)]
    ]
    return pl.DataFrame(rows) if rows else None


FIGURES = (
    PaperFigure(
        "Examples a second by number of workers",
        "Of all workers, by batch size, link speed, order of transfers, servers and placement.",
        examples_per_s,
        Mark("line", "workers", ("predicted", "measured"), of="setting", panel="network"),
        (),
        r"Fig\. (18|19|25)\b",
    ),
    PaperFigure(
        "How gRPC sent the tensors",
        "WIN is the flow-control window that the receiver announced. <em>Rule</em> is the paper's: "
        "a stream is suspended once, after WIN, if it is longer and others wait, and then sent to "
        "its end. In order: share of neighbours that came in the order in which they were asked "
        "for, and in which their records start.",
        lambda found: behaviours(found.captured),
    ),
    PaperFigure(
        "Flow-control windows as the worker announced them",
        "Downlink, of the first captured profile of each network.",
        windows,
        Mark("step", "seconds", ("window_mib",), of="dnn", log="y"),
        (),
    ),
    PaperFigure(
        "Streams of one downlink",
        "The step that was sent in most pieces.",
        streams,
        Mark("spans", "start_ms", ("stream",), of="sent", panel="step", to="end_ms"),
        (),
    ),
    PaperFigure(
        "What a profiled step consists of",
        "One worker's traced steps, as TensorFlow recorded them: a transfer's record also holds "
        "waiting for the link and parsing. The client's time between steps is left out.",
        traced_steps,
        Mark("spans", "start_ms", ("resource",), panel="profile", to="end_ms"),
        (),
    ),
    PaperFigure(
        "What receiving a tensor takes beside its bytes",
        "Recorded end of a transfer less its last packet, by size: the median, and a line by "
        "ordinary least squares over all captured profiles.",
        overheads,
        Mark("line", "size_mb", ("median_ms", "line_ms"), panel="received_by"),
        (),
    ),
    PaperFigure(
        "Lines of that overhead",
        "Intervals of 95 % take residuals for independent and normal, which waits for a share of "
        "the processor are not: read them beside R².",
        overhead_fits,
    ),
    PaperFigure(
        "When tensors had arrived, forecast and captured",
        "From the recorded starts of a step's transfers, a link that sends one stream after the "
        "other at the goodput of one flow ends each of them at some moment. |that − its last "
        "packet| / (time of its last packet since the step's start), as in Table 1 of the paper.",
        lambda found: end_time_errors(found.captured),
    ),
    PaperFigure(
        "What another flow-control window would change",
        "Predictions let no stream be suspended. What they would be under the paper's rule, with "
        "the window that the worker announced first (or 1 MiB, hypothetical, where every tensor "
        "is shorter), and half of it more or less. Nothing here is in the ledger.",
        window_changes,
    ),
    PaperFigure(
        "In which order tensors were sent",
        "Share of the pairs of a step's downlink transfers whose first packets came in the order "
        "that was enforced, and in the order in which the worker asked for them; chance is a half. "
        "The framework enforces none.",
        lambda found: kept_orders(found.captured),
    ),
    PaperFigure(
        "How workers drift apart after the start",
        "All workers start at a barrier, in the simulation too. Steps a second over "
        f"{WINDOW_STEPS} steps of each worker at a time; simulated: mean of {SEEDS} seeds.",
        convergence,
        Mark("line", "step", ("measured", "simulated"), panel="scenario"),
        (),
    ),
    PaperFigure(
        "How variables are divided among servers",
        "In turn, as TensorFlow places them, and each on the server that holds fewest bytes so "
        "far. As transferred: what no step sends counts as none.",
        servers,
    ),
)
