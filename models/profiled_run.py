"""What predictors that extrapolate profiled runs share: scenarios, metrics and limits."""

from collections.abc import Sequence
from statistics import fmean

import polars as pl
from pydantic import ValidationError

from models.system import Tables
from warehouse.records import BadInput, Record, Scenario

PREDICTED = pl.Schema(
    {"scenario_id": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
)


class PointForecaster(Record):
    """A fit that is its parameters, and whose forecasts have no interval."""

    def value(self, scenario: Scenario) -> float:
        """Return the forecast of a scenario.

        Raises:
            BadInput: it says nothing of it; the message says why, or what to measure.
        """
        raise NotImplementedError

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id and value of each scenario; low and high are NULL."""
        rows = [(scenario.scenario_id, self.value(scenario), None, None) for scenario in scenarios]
        return pl.DataFrame(rows, schema=PREDICTED, orient="row")

    def parameters_json(self) -> str:
        """Return the parameters as canonical JSON."""
        return self.canonical_json()


def run_ids_of(frame: pl.DataFrame) -> list[str]:
    """Return the runs that rows of `frame` belong to, sorted."""
    return frame["run_id"].unique().sort().to_list()


def of_run(frame: pl.DataFrame, run_id: str) -> pl.DataFrame:
    """Return the rows of one run."""
    return frame.filter(pl.col("run_id") == run_id)


def by_link_speed(runs: pl.DataFrame, rows: pl.DataFrame) -> dict[float | None, pl.DataFrame]:
    """Return rows by the speed in Mb/s that links of their run were shaped to, None first.

    Args:
        runs: table run, whose config has the speeds.
        rows: of any table that has a run_id.
    """
    speed = pl.col("config").str.json_path_match("$.link_mbps").cast(pl.Float64)
    known = rows.join(runs.select("run_id", link_mbps=speed), on="run_id", how="left")
    groups = known.sort("link_mbps", maintain_order=True).group_by("link_mbps", maintain_order=True)
    return {link_mbps: of_speed.drop("link_mbps") for (link_mbps,), of_speed in groups}


def read_scenario(canonical: str) -> Scenario:
    """Return the scenario that a history holds as JSON.

    Raises:
        BadInput: another version wrote it.
    """
    try:
        return Scenario.model_validate_json(canonical)
    except ValidationError as error:
        raise BadInput(
            f"a measured scenario is not one this version reads: {error.errors()[0]['msg']}"
        ) from error


def profiled_scenario(tables: Tables, run_id: str) -> Scenario:
    """Return the scenario of a run."""
    (scenario_id,) = of_run(tables["run"], run_id)["scenario_id"]
    return read_scenario(tables["scenario"].filter(scenario_id=scenario_id)["canonical"][0])


def metric_mean(tables: Tables, run_id: str, metric: str) -> float:
    """Return a metric of a run: of the whole run if that was recorded, else the mean over windows.

    Raises:
        BadInput: the metric is missing or negative.
    """
    rows = of_run(tables["sample"], run_id).filter(metric=metric).drop_nulls("value")
    whole = rows.filter(pl.col("window").is_null())
    values = (rows if whole.is_empty() else whole)["value"].to_list()
    mean = fmean(values) if values else None
    if mean is None or not 0 <= mean < float("inf"):
        raise BadInput(
            f"run {run_id}: expected metric {metric} of 0 or more, found {mean}; profile again"
        )
    return mean


def single_flow_Bps(links: pl.DataFrame, direction: str) -> float:
    """Return a link's speed in a direction: the mean over trials of the goodput of one flow.

    Raises:
        BadInput: there is no such trial, or the mean is not above 0.
    """
    single = links.filter(pl.col("flows") == 1, pl.col("direction") == direction)
    speed_Bps = single["bandwidth_Bps"].drop_nulls()
    mean_Bps = fmean(speed_Bps) if len(speed_Bps) else 0.0
    if not mean_Bps > 0:
        raise BadInput(
            f"table link: expected {direction} trials of a single flow with bandwidth_Bps "
            f"above 0, found {len(speed_Bps)} trials with mean {mean_Bps:g}; run the links probe "
            "again"
        )
    return mean_Bps


def refusal(profiled: Scenario, scenario: Scenario) -> str | None:
    """Return why a model of the profiled server and link says nothing about a scenario, if so."""
    profiled_servers, servers = profiled.strategy.servers, scenario.strategy.servers
    if servers != profiled_servers:
        return (
            f"the profile has {profiled_servers} server(s), not {servers}; this model does not "
            "change that"
        )
    if scenario.link_mbps != profiled.link_mbps:
        return (
            f"the profile has a link of {profiled.link_mbps} Mb/s, not {scenario.link_mbps}; this "
            "model does not change that; profile one worker on this link first"
        )
    if scenario.cross_traffic != profiled.cross_traffic:
        return "others use the servers' links too; this model knows nothing of that"
    return None
