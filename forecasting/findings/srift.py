"""Figures of Srift: step times, all-reduces, passes, links, and the errors of its parts."""

from collections.abc import Iterator, Mapping

import polars as pl

from forecasting.findings.figure import MeasuredRound, PaperFigure, together
from forecasting.findings.mark import Mark
from forecasting.fits import data_hash
from models.srift import allreduce, validation
from models.srift.profiles import allreduces_by_place
from profilers.probe import PlannedRun
from studies import run_tables

UNDERESTIMATED = 0.9
"""In this part of the scenarios step times are underestimated by at most what the table shows."""


def _several(found: MeasuredRound) -> pl.DataFrame:
    """Return judged scenarios of two or more nodes, with types, and whether each has one image."""
    curves = [
        (" + ".join(sorted(set(curve.worker))), curve.batch_size == 1 and not curve.mix)
        for curve in found.round.study.curves
    ]
    of_curves = pl.DataFrame(curves, schema=["types", "single"], orient="row").with_row_index(
        "curve"
    )
    return found.rows.filter(pl.col("error_percent").is_not_null(), pl.col("workers") > 1).join(
        of_curves.with_columns(pl.col("curve").cast(found.rows.schema["curve"])), on="curve"
    )


def step_times(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors by node types, by number of nodes, of all, and of one image on each node."""
    if not found.round.runs_of("torch_compute") or (judged := _several(found)).is_empty():
        return None
    error = pl.col("error_percent")
    return together(
        [
            rows.select(
                scenarios=pl.lit(name),
                n=pl.len(),
                mean_percent=error.mean(),
                absolute_percent=error.abs().mean(),
                largest_percent=error.abs().max(),
                under_percent=(-error.quantile(1 - UNDERESTIMATED, "linear")).clip(lower_bound=0),
            )
            for name, rows in _groups(judged)
        ]
    )


def _groups(judged: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    several = judged.filter(~pl.col("single"))
    for (name,), group in several.group_by("types", maintain_order=True):
        yield str(name), group
    for (workers,), group in several.sort("workers").group_by("workers", maintain_order=True):
        yield f"{workers} nodes", group
    yield "all", several
    yield "one image on each node", judged.filter("single")


def underestimated(found: MeasuredRound) -> pl.DataFrame | None:
    """Return which part of the scenarios is underestimated by at most so much (Fig. 7)."""
    if not found.round.runs_of("torch_compute"):
        return None
    under = (-_several(found)["error_percent"]).clip(lower_bound=0).sort()
    shares = [100 * (place + 1) / len(under) for place in range(len(under))]
    return pl.DataFrame({"underestimated_percent": under, "scenarios_percent": shares})


def bus_bandwidth(found: MeasuredRound) -> pl.DataFrame | None:
    """Return medians of the bus bandwidth of all-reduces by size, by how many ran at once."""
    rows = run_tables.rows(found.round, found.landing, "allreduce", "allreduce")
    return together(
        [
            part.group_by("concurrent", "size_bytes")
            .agg(mbps=pl.col("bus_bandwidth_Bps").median() * 8e-6)
            .sort("concurrent", "size_bytes")
            .with_columns(probed=pl.lit(str(name)), at_once=pl.format("{} at once", "concurrent"))
            for (name,), part in (run_tables.by_name(rows) if rows.width else ())
        ]
    )


def passes(found: MeasuredRound) -> pl.DataFrame | None:
    """Return mean seconds of passes by batch size."""
    rows = run_tables.rows(found.round, found.landing, "torch_compute", "compute", "profile")
    return together(
        [
            part.group_by("batch_size")
            .agg(pl.col("forward_s", "backward_s").mean())
            .sort("batch_size")
            .with_columns(profile=pl.lit(str(name)))
            for (name,), part in (run_tables.by_name(rows) if rows.width else ())
        ]
    )


def passes_left_out(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors of each batch size but the outermost, forecast from the others."""
    rows = run_tables.rows(found.round, found.landing, "torch_compute", "compute", "profile")
    named = run_tables.by_name(rows) if rows.width else ()
    return _means({str(name): validation.pass_errors(part) for (name,), part in named})


def passes_held_out(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors of batch sizes that were timed apart, after predictions."""

    def network(need: PlannedRun) -> tuple[object, ...]:
        return need.scenario.workload.dnn, need.scenario.workload.image_size, need.scenario.nodes

    runs = found.round.runs_of("torch_compute")
    profiles = {network(need): run for need, run in runs.items() if need.profiles}
    return _means(
        {
            need.title: validation.held_out_errors(
                run_tables.table(found.landing, profiles[network(need)], "compute"),
                run_tables.table(found.landing, run, "compute"),
            )
            for need, run in runs.items()
            if not need.profiles and network(need) in profiles
        }
    )


def _means(errors: Mapping[str, pl.DataFrame]) -> pl.DataFrame | None:
    """Return mean absolute errors of each profile that has some, and of all together."""
    parts = {name: part for name, part in errors.items() if part.height}
    if parts:
        parts["all"] = pl.concat(parts.values())
    return together(
        [
            part.select(
                pl.lit(name).alias("profile"),
                pl.exclude("batch_size").abs().mean(),
                batch_sizes=pl.len(),
            )
            for name, part in parts.items()
        ]
    )


def allreduces_left_out(found: MeasuredRound) -> pl.DataFrame | None:
    """Return `models.srift.validation.allreduce_errors` of the round; the home keeps them."""
    probed = found.round.runs_of("allreduce").values()
    if not probed:
        return None
    landed = [run_tables.tables(found.landing, run) for run in probed]
    rows, runs, clusters = (
        pl.concat([of_run[name] for of_run in landed])
        for name in ("allreduce", "run", "cluster_node")
    )

    def judged() -> pl.DataFrame:
        places, hardware = allreduces_by_place(runs, rows, clusters)
        fitted = allreduce.fit(rows, places, hardware)
        return validation.allreduce_errors(fitted, rows, places)

    tables = {"allreduce": rows, "run": runs, "cluster_node": clusters}
    return found.store.frame("allreduces", __name__, data_hash(tables), judged)


def goodput(found: MeasuredRound) -> pl.DataFrame | None:
    """Return the goodput of simultaneous flows, all flows together, mean over trials."""
    rows = run_tables.rows(found.round, found.landing, "links", "link")
    if not rows.width:
        return None
    flows = ("link_mbps", "direction", "flows")
    totals = rows.group_by(*flows, "trial").agg(mbps=pl.col("bandwidth_Bps").sum() * 8e-6)
    return totals.group_by(flows).agg(pl.col("mbps").mean(), trials=pl.len()).sort(flows)


LINKS = PaperFigure(
    "Speed of the links",
    "Goodput of simultaneous flows between the server and as many workers, as iperf3's receivers "
    "counted it; all flows together, mean over trials. No speed: links are not shaped.",
    goodput,
)
"""Of a study of any paper."""
_LEFT_OUT = r"section 5\.3: compute latency"
FIGURES = (
    PaperFigure(
        "All-reduces",
        "Bus bandwidth by size; medians of all ranks and trials.",
        bus_bandwidth,
        Mark("line", "size_bytes", ("mbps",), of="at_once", panel="probed", log="x"),
        (),
    ),
    PaperFigure(
        "Passes of one node",
        "Mean seconds by batch size.",
        passes,
        Mark("line", "batch_size", ("forward_s", "backward_s"), panel="profile"),
        (),
    ),
    PaperFigure(
        "Errors by node types and number of nodes",
        "Of two or more nodes. In 90 % of the scenarios step times are underestimated by at most "
        "<em>under</em>. Scenarios of one image on each node, where latency counts, are apart.",
        step_times,
        printed="end-to-end MAPE",
    ),
    PaperFigure(
        "How far step times were underestimated",
        "Share of the scenarios that are underestimated by at most so much.",
        underestimated,
        Mark("step", "underestimated_percent", ("scenarios_percent",)),
        (),
        r"Fig\. 7\b",
    ),
    PaperFigure(
        "Passes that fits did not see",
        "Each batch size but the outermost is left out in turn, and forecast from the others. "
        "Means of absolute errors; the floor is the mean standard error of what was measured.",
        passes_left_out,
        printed=_LEFT_OUT,
    ),
    PaperFigure(
        "Batch sizes that fits did not see",
        "Batch sizes that were timed apart, after predictions, and forecast from the profile.",
        passes_held_out,
        printed=_LEFT_OUT,
    ),
    PaperFigure(
        "All-reduces that fits did not see",
        "Bus bandwidth up to the MTU (<em>small</em>) and above it, a tenth left out at a time: "
        "whole <em>configurations</em> (size, world, node types), or <em>rows</em>, as in the "
        "paper's 9/1 split. The noise floor is the error of forecasting each by the mean time of "
        "the other repeats of its configuration; no bandwidth errs less than <em>least</em>.",
        allreduces_left_out,
        printed="all-reduce bandwidth",
    ),
)
