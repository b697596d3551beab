"""What a dollar trains: examples for the price of a scenario's nodes."""

from collections.abc import Mapping

import polars as pl

from forecasting.speeds import examples_per_step
from profilers.clusters.node_types import declared_usd_per_hour
from studies.rounds import Round
from warehouse.records import Scenario


def per_dollar(round_: Round, rows: pl.DataFrame) -> pl.DataFrame | None:
    """Return what a dollar trains in each scenario, by forecast and as measured.

    The price is what the nodes of the run that measured it cost an hour; of a scenario that nobody
    measured, what their types declare.

    Args:
        round_: that has landed.
        rows: of `forecasting.results.outcome`: scenario_id, predicted and measured.

    Returns:
        scenario_id, usd_per_hour, and predicted and measured (examples per dollar), a row for each
        scenario whose price is known; None if no price is.
    """
    judges = {need.probe for need in round_.needs if not need.profiles}
    paid = {
        run.scenario_id: run.config.get("usd_per_hour")
        for need, run in round_.runs_of(*judges).items()
        if not need.profiles
    }
    found = {
        scenario.scenario_id: (_usd_per_hour(scenario, paid), examples_per_step(scenario), is_rate)
        for curve in round_.study.curves
        if curve.is_judged
        for is_rate in [curve.metric.name.endswith("_per_s")]
        for scenario in curve.scenarios(round_.backend)
    }
    priced = [(one, *about) for one, about in found.items() if about[0]]
    if not priced:
        return None
    columns = ["scenario_id", "usd_per_hour", "examples", "is_rate"]
    per_hour = 3600 / pl.col("usd_per_hour") * pl.col("examples")
    return (
        pl.DataFrame(priced, columns, orient="row")
        .join(rows.unique("scenario_id"), on="scenario_id", maintain_order="left")
        .select(
            "scenario_id",
            "usd_per_hour",
            *(
                (per_hour * pl.when("is_rate").then(name).otherwise(1 / pl.col(name))).alias(name)
                for name in ("predicted", "measured")
            ),
        )
    )


def _usd_per_hour(scenario: Scenario, paid: Mapping[str | None, object]) -> float | None:
    asked = paid.get(scenario.scenario_id)
    return float(asked) if isinstance(asked, int | float) else declared_usd_per_hour(scenario.nodes)
