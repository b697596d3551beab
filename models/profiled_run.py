"""What predictors that extrapolate one profiled run share: its scenario, metrics and limits."""

from collections.abc import Callable, Sequence
from statistics import fmean

import polars as pl
from pydantic import ValidationError

from warehouse.records import BadInput, Record, Scenario, Strategy

PREDICTED = pl.Schema(
    {"scenario_id": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64}
)


def run_ids_of(frame: pl.DataFrame) -> list[str]:
    """Return the runs that rows of `frame` belong to, sorted."""
    return frame["run_id"].unique().sort().to_list()


def only_run_id(frame: pl.DataFrame, table: str) -> str:
    """Return the run all rows of `frame` belong to; BadInput if there is not exactly one."""
    run_ids = run_ids_of(frame)
    if len(run_ids) != 1:
        raise BadInput(
            f"table {table}: expected rows of one profile run, found {len(run_ids)} runs "
            f"({', '.join(run_ids[:3]) or 'none'}); select one"
        )
    return run_ids[0]


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


def profiled_scenario(run_id: str, runs: pl.DataFrame, scenarios: pl.DataFrame) -> Scenario:
    """Return the scenario of a successful run with one worker, else BadInput."""
    run = of_run(runs, run_id)
    if run.height != 1 or run["status"][0] != "ok":
        status = run["status"][0] if run.height else "no such run"
        raise BadInput(f"run {run_id}: expected a profile with status ok, found {status}")
    canonical = scenarios.filter(pl.col("scenario_id") == run["scenario_id"][0])["canonical"]
    if canonical.is_empty():
        raise BadInput(f"run {run_id}: its scenario {run['scenario_id'][0]} is not in scenario")
    try:
        scenario = Scenario.model_validate_json(canonical[0])
    except ValidationError as error:
        raise BadInput(
            f"run {run_id}: its scenario is not one this version reads: {error.errors()[0]['msg']}"
        ) from error
    if scenario.strategy.workers != 1:
        raise BadInput(
            f"run {run_id}: expected a profile of 1 worker, found {scenario.strategy.workers}"
        )
    return scenario


def check_one_job(profiled: Sequence[Scenario]) -> None:
    """Refuse profiles that are not of one job, each of another type of worker.

    Raises:
        BadInput: they differ in more than their workers, or two are of the same type of worker.
    """
    first, *others = profiled
    kinds = [profile.worker_groups[0].one for profile in profiled]
    for place, other in enumerate(others, start=1):
        if _but_workers(other) != _but_workers(first):
            raise BadInput(
                f"profiles of {first.label} and {other.label}: expected scenarios that differ in "
                "their worker only; select profiles of one job"
            )
        if kinds[place] in kinds[:place]:
            raise BadInput(
                f"{other.label}: expected one profile of each type of worker, found two of "
                f"{kinds[place].node_type}; select one"
            )


def metric_mean(samples: pl.DataFrame, run_id: str, metric: str) -> float:
    """Return a metric of a run: of the whole run if that was recorded, else the mean over windows.

    Raises:
        BadInput: the metric is missing or negative.
    """
    rows = of_run(samples, run_id).filter(pl.col("metric") == metric, pl.col("value").is_not_null())
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


def like_workers(scenario: Scenario) -> bool:
    """Tell whether all workers are on nodes of one type."""
    return len({group.one for group in scenario.worker_groups}) == 1


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


def forecasts(
    profiled: Scenario, scenarios: Sequence[Scenario], steps_per_s: Callable[[int], float]
) -> pl.DataFrame:
    """Return scenario_id and value of each scenario; low and high are NULL.

    `steps_per_s` gives the throughput of a number of like workers, in steps of all of them.

    Raises:
        BadInput: a scenario whose workload, nodes, number of servers or link differ from the
            profiled one's.
    """

    def of_like(scenario: Scenario) -> float:
        check_alike([profiled], scenario)
        return steps_per_s(scenario.strategy.workers)

    return forecasts_of(profiled, scenarios, of_like)


def forecasts_of(
    profiled: Scenario, scenarios: Sequence[Scenario], steps_per_s: Callable[[Scenario], float]
) -> pl.DataFrame:
    """Return scenario_id and value of each scenario; low and high are NULL.

    `steps_per_s` gives the throughput of a scenario, in steps of all workers; it refuses those
    whose workers it does not know.

    Raises:
        BadInput: a scenario whose number of servers, link or cross traffic differ from the
            profiled one's, or what `steps_per_s` raises.
    """
    rows = []
    for scenario in scenarios:
        reason = refusal(profiled, scenario)
        if reason:
            raise BadInput(f"{scenario.label}: {reason}")
        rows.append((scenario.scenario_id, steps_per_s(scenario), None, None))
    return pl.DataFrame(rows, schema=PREDICTED, orient="row")


def check_alike(profiled: Sequence[Scenario], scenario: Scenario) -> None:
    """Refuse a scenario that profiles of one worker, of each type, say nothing about.

    Raises:
        BadInput: another workload, workers of other types, other servers, or variables on others.
    """
    check_alike_servers(profiled[0], scenario)
    kinds = [profile.worker_groups[0].one for profile in profiled]
    for group in scenario.worker_groups:
        if group.one not in kinds:
            named = (kind for kind in kinds if kind.node_type == group.node_type)
            expected = next(named, kinds[0])
            _check_equal(scenario.label, "worker nodes", expected, group.one)


def check_alike_servers(profiled: Scenario, scenario: Scenario) -> None:
    """Refuse a scenario that trains something else than was profiled, or with other servers.

    Raises:
        BadInput: another workload, server nodes of another type, or variables on other servers.
    """
    expected_on, found_on = _placed(profiled.strategy), _placed(scenario.strategy)
    if expected_on != found_on:
        raise BadInput(
            f"{scenario.label}: variables {found_on}, but the profile has them {expected_on}; "
            "profile one worker of this scenario first"
        )
    _check_equal(scenario.label, "workload", profiled.workload, scenario.workload)
    expected = next(group.one for group in profiled.nodes if group.role == "server")
    for group in scenario.nodes:
        if group.role == "server":
            _check_equal(scenario.label, "server nodes", expected, group.one)


def _but_workers(scenario: Scenario) -> Scenario:
    others = tuple(group for group in scenario.nodes if group.role != "worker")
    return scenario.model_copy(update={"nodes": others})


def _placed(strategy: Strategy) -> str:
    several = f"{strategy.servers} servers, placed {strategy.placement}"
    return f"on {several}" if strategy.servers > 1 else "on 1 server"


def _check_equal(label: str, what: str, profiled: Record, record: Record) -> None:
    """Refuse a record that differs in a field from the profiled one."""
    for field in type(record).model_fields:
        expected, value = getattr(profiled, field), getattr(record, field)
        if expected != value:
            raise BadInput(
                f"{label}: {what} with {field} {value!r}, but the profile has {expected!r}; "
                "profile one worker of this scenario first"
            )
