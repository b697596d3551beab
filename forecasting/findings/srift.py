"""Figures of Srift: how far steps were underestimated, errors of passes."""

import polars as pl

from forecasting.findings.figure import Mark, MeasuredRound, PaperFigure, together
from models.srift import latency
from profilers.probe import PlannedRun
from studies import run_tables


def underestimated(found: MeasuredRound) -> pl.DataFrame | None:
    """Return which part of the scenarios is underestimated by at most so much (Fig. 7)."""
    if not found.round.runs_of("torch_compute"):
        return None
    several = found.rows.filter(pl.col("error_percent").is_not_null(), pl.col("workers") > 1)
    under = (-several["error_percent"]).clip(lower_bound=0).sort()
    shares = [100 * (place + 1) / len(under) for place in range(len(under))]
    return pl.DataFrame({"underestimated_percent": under, "scenarios_percent": shares})


def passes_held_out(found: MeasuredRound) -> pl.DataFrame | None:
    """Return errors of batch sizes that were timed apart, after predictions (Table 6).

    Means of absolute errors of each profile, and of all together.
    """

    def network(need: PlannedRun) -> tuple[object, ...]:
        return need.scenario.workload.dnn, need.scenario.workload.image_size, need.scenario.nodes

    runs = found.round.runs_of("torch_compute")
    profiles = {network(need): run for need, run in runs.items() if need.profiles}
    errors = {
        need.title: latency.held_out_errors(
            run_tables.table(found.landing, profiles[network(need)], "compute"),
            run_tables.table(found.landing, run, "compute"),
        )
        for need, run in runs.items()
        if not need.profiles and network(need) in profiles
    }
    if errors:
        errors["all"] = pl.concat(errors.values())
    return together(
        [
            part.select(
                pl.lit(name).alias("profile"),
                pl.exclude("batch_size").abs().mean(),
                batch_sizes=pl.len(),
            )
            for name, part in errors.items()
        ]
    )


FIGURES = (
    PaperFigure(
        "How far step times were underestimated",
        "Share of the scenarios of two or more nodes that are underestimated by at most so much.",
        underestimated,
        Mark("step", "underestimated_percent", ("scenarios_percent",)),
        (),
        r"Fig\. 7\b",
    ),
    PaperFigure(
        "Batch sizes that fits did not see",
        "Batch sizes that were timed apart, after predictions, and forecast from the profile. "
        "Means of absolute errors; the floor is the mean standard error of what was measured.",
        passes_held_out,
        printed=r"section 5\.3: compute latency",
    ),
)
