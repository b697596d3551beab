"""Figures of ICPE'20, asynchronous SGD in TensorFlow: errors, throughput, steps, streams."""

from operator import itemgetter

import polars as pl

from forecasting.findings.figure import Mark, MeasuredRound, PaperFigure, together
from forecasting.results import headline_filter
from models.async_sgd.http2 import pieces
from models.async_sgd.overhead import transfers
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic_trace import (
    busy_intervals,
    measured_throughput,
    throughput_of_starts,
)
from profilers.probe import PlannedRun
from studies import run_tables
from studies.curve import Curve
from warehouse.records import on_images

SHOWN_STEPS = 3
WINDOW_STEPS, MOST_STEPS, SEEDS = 5, 100, 5
"""Steps of each worker that a point averages, steps that are shown, and simulations of a mean."""
PAPER_WORKERS = 3
"""Of Fig. 16."""


def errors_by_batch(found: MeasuredRound) -> pl.DataFrame | None:
    """Return mean errors of two or more workers, by network and batch size."""
    batches = [curve.batch_size for curve in found.round.study.curves]
    error = pl.col("error_percent")
    return (
        found.rows.filter(headline_filter(found.rows), error.is_not_null(), ~pl.col("host_busy"))
        .with_columns(batch_size=pl.col("curve").replace_strict(range(len(batches)), batches))
        .group_by("dnn", "batch_size")
        .agg(
            n=pl.len(),
            mean_percent=error.mean(),
            absolute_percent=error.abs().mean(),
            largest_percent=error.abs().max(),
        )
        .sort("dnn", "batch_size")
    )


ERRORS = PaperFigure(
    "Errors by network and batch size",
    "Of two or more workers; what was measured while the host was busy is not in it.",
    errors_by_batch,
    printed=r"Fig\. (13|14|17|20|21)\b|Table 5, caption|section 5\.3: end-to-end MAPE",
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


def streams(found: MeasuredRound) -> pl.DataFrame | None:
    """Return when each stream of a downlink was sent: of the step that was sent in most pieces."""
    sent = []
    for need, run in found.round.runs_of("tf_trace").items():
        tables = run_tables.tables(found.landing, run)
        if {"stream", "http2_frame"} <= tables.keys():
            recorded = tables["operation"], tables["timing"], tables["step"]
            moved = transfers(tables["stream"], *recorded)
            if (down := moved.filter(direction="downlink")).height:
                sent.append((int((down["segments"] > 1).sum()), need, down, tables["http2_frame"]))
    if not sent:
        return None
    _, need, moved, frames = max(sent, key=itemgetter(0))
    by_step = moved.group_by("step").agg(pl.col("segments").sum())
    step = by_step.sort("segments", "step")["step"][-1]
    down = pieces(moved, frames, "downlink", step)
    order = down.select("server", "stream").unique(maintain_order=True).with_row_index("place")
    is_whole = pl.len().over("place") == 1
    return down.join(order, on=["server", "stream"]).select(
        pl.lit(f"{need.scenario.label}, step {step}").alias("step"),
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


def convergence(found: MeasuredRound) -> pl.DataFrame | None:
    """Return throughput by steps since the start, measured and simulated, of each network.

    It is of the measured run with most like the paper's workers, two or more.
    """

    def distance(need: PlannedRun) -> int:
        return abs(need.scenario.strategy.workers - PAPER_WORKERS)

    by_dnn: dict[str, PlannedRun] = {}
    for need in found.round.runs_of("tf_throughput"):
        dnn = need.scenario.workload.dnn
        if need.scenario.strategy.workers > 1:
            by_dnn[dnn] = min(by_dnn.get(dnn, need), need, key=distance)
    return together([rows for need in by_dnn.values() if (rows := _drift(found, need)) is not None])


def _drift(found: MeasuredRound, need: PlannedRun) -> pl.DataFrame | None:
    fit = found.fits.get(found.round.study.curve_of(need.scenario, found.round.backend))
    run = found.round.run_of(need)
    if fit is None or run is None:
        return None
    steps = run_tables.table(found.landing, run, "step")
    seen = measured_throughput(steps, WINDOW_STEPS).head(MOST_STEPS // WINDOW_STEPS)
    if seen.is_empty():
        return None
    model, count = fit.fitted(), WINDOW_STEPS * (seen.height + 1)
    assert isinstance(model, AsyncSGD)
    made = pl.concat(
        throughput_of_starts(
            model.simulated(need.scenario, seed, steps=count).step_starts_s, WINDOW_STEPS
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
        "How workers drift apart after the start",
        "All workers start at a barrier, in the simulation too. Steps a second over "
        f"{WINDOW_STEPS} steps of each worker at a time; simulated: mean of {SEEDS} seeds.",
        convergence,
        Mark("line", "step", ("measured", "simulated"), panel="scenario"),
        (),
    ),
)
