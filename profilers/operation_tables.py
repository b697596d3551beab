"""Tables of probes that time the operations of a device at full speed and at its node's share."""

from collections.abc import Callable, Iterator, Sequence

import polars as pl

from profilers.probe import PlannedRun, RequestedScenarios, Settings, start_s
from profilers.scenarios import single_worker_scenarios
from warehouse.records import Purpose, Scenario
from warehouse.requirements import Subject


def operation_time(pieces: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return table operation_time of the steps of all pieces.

    An operation that runs several times in a step counts with their sum.

    Args:
        pieces: operation, step (numbered in each piece by itself) and us, a row per execution.
    """
    sums = pl.concat(
        piece.group_by("operation", "step").agg(pl.col("us").sum()) for piece in pieces
    )
    us = pl.col("us")
    return (
        sums.group_by("operation")
        .agg(
            pl.len().cast(pl.Int32).alias("steps"),
            us.mean().alias("mean_us"),
            us.median().alias("median_us"),
            us.std().fill_null(0.0).alias("sd_us"),
            us.min().cast(pl.Float64).alias("min_us"),
            us.quantile(0.95, "linear").alias("p95_us"),
        )
        .sort("operation")
    )


def dnn_row(scenario: Scenario, parameter_count: int) -> pl.DataFrame:
    """Return table dnn of the network of a scenario."""
    load = scenario.workload
    return pl.DataFrame(
        {
            "dnn": [load.dnn],
            "framework": [load.framework],
            "image_size": [load.image_size],
            "batch_size": [load.batch_size],
            "parameter_count": [parameter_count],
        }
    )


def step_samples(held_s: float, free_s: float, traced_s: float, stolen: float) -> pl.DataFrame:
    """Return table sample: mean steps at the share and at full speed, untraced and traced."""
    rows = [
        ("step_time_s", "s", held_s),
        ("unconfined_step_time_s", "s", free_s),
        ("traced_step_time_s", "s", traced_s),
        ("stolen_cpu_fraction", "1", stolen),
    ]
    columns = ["metric", "unit", "value"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        window=pl.lit(None, pl.Int16)
    )


def plan_operation_runs(
    probe: str,
    requested: RequestedScenarios,
    settings: Settings,
    expected_s: Callable[[Scenario], float],
    *,
    test: bool,
) -> Iterator[PlannedRun]:
    """Yield one worker of each type of train scenarios and, with `test`, of test scenarios.

    What both have in common fits may see. `expected_s` is what steps of each are expected to take.
    """
    shown = dict.fromkeys(
        single_worker_scenario
        for scenario in requested.train
        for single_worker_scenario in single_worker_scenarios(scenario)
    )
    hidden = dict.fromkeys(
        single_worker_scenario
        for scenario in requested.test
        for single_worker_scenario in single_worker_scenarios(scenario)
    )
    purposes: dict[Scenario, Purpose] = dict.fromkeys(hidden if test else (), "measurement")
    for scenario, purpose in (purposes | dict.fromkeys(shown, "profile")).items():
        yield PlannedRun(
            Subject(probe, scenario, scenario.link_mbps),
            purpose,
            f"profile {scenario.label}",
            scenario.nodes,
            settings,
            expected_s=expected_s(scenario),
            start_s=start_s(scenario.nodes),
            of_train=purpose == "profile",
        )
