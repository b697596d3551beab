"""What systems forecast of the scenarios of a round, beside what was measured after it."""

import polars as pl

from forecasting.chosen import systems_of
from forecasting.results import of_place, of_round
from studies.rounds import Round

SCHEMA = {
    "system": pl.String,
    "scenario_id": pl.String,
    "dnn": pl.String,
    "workers": pl.Int64,
    "predicted": pl.Float64,
    "measured": pl.Float64,
    "error_percent": pl.Float64,
    "noise_floor_percent": pl.Float64,
    "fit_id": pl.String,
}
"""A row for each system and scenario that was judged."""


def judged_of(round_: Round, accuracy: pl.DataFrame) -> pl.DataFrame:
    """Return `SCHEMA` of a round: each system's newest forecast of what no busy host measured.

    Forecasts of other studies count where they are of the same scenarios, on the same host, by
    systems that the study of the round does not have: Ernest's own runs are a study of theirs.

    Args:
        round_: of a study.
        accuracy: rows of report.accuracy.
    """
    asked = [
        (one.scenario_id, one.workload.dnn, one.strategy.workers)
        for curve in round_.study.curves
        if curve.is_judged
        for one in curve.scenarios(round_.backend)
    ]
    scenarios = pl.DataFrame(asked, ["scenario_id", "dnn", "workers"], orient="row").unique()
    own = [system.name for system in systems_of(round_.study)]
    others = of_place(round_, accuracy).filter(
        pl.col("study") != round_.study.name, ~pl.col("system").is_in(own)
    )
    return (
        pl.concat([of_round(round_, accuracy), others])
        .filter(pl.col("error_percent").is_not_null(), ~pl.col("host_busy"))
        .sort("made_at")
        .unique(["system", "scenario_id"], keep="last")
        .join(scenarios, on="scenario_id")
        .select(SCHEMA.keys())
        .cast(pl.Schema(SCHEMA))
        .sort("system", "dnn", "workers", "scenario_id")
    )
