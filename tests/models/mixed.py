"""Scenarios of workers of several node types, and the tables of a profile of each type."""

from collections.abc import Mapping

import polars as pl

from tests.models.async_sgd.frames import Tables
from tests.models.runs import run_tables, samples, scenario
from warehouse.records import NodeGroup, Scenario

PROFILES = {"emu.1c": "profile-1", "emu.slow": "profile-2"}
"""The run that profiled each type."""


def mixed(counts: Mapping[str, int], *, inter_op_threads: int = 1, **changes: object) -> Scenario:
    """Return the scenario of `tests.models.runs` with so many workers of each type."""
    alike = scenario(sum(counts.values()), **changes)  # type: ignore[arg-type]
    worker, *others = alike.nodes
    groups = [_named(worker, *pair, inter_op_threads) for pair in counts.items()]
    return alike.model_copy(update={"nodes": (*groups, *others)})


def both_tables(**changes: object) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return tables run and scenario of a profile of either type, and of links runs."""
    runs, scenarios = run_tables(mixed({"emu.1c": 1}, **changes))  # type: ignore[arg-type]
    slow = mixed({"emu.slow": 1}, **changes)  # type: ignore[arg-type]
    row = {"run_id": "profile-2", "scenario_id": slow.scenario_id, "status": "ok", "config": "{}"}
    known = {"scenario_id": slow.scenario_id, "canonical": slow.canonical_json()}
    return pl.concat([runs, pl.DataFrame([row])]), pl.concat([scenarios, pl.DataFrame([known])])


def both(fast: Tables, slow: Tables) -> Tables:
    """Return the tables of two profiles together."""
    frames = zip(vars(fast).values(), vars(slow).values(), strict=True)
    return Tables(
        *(
            pl.concat([fast_rows, slow_rows.with_columns(run_id=pl.lit("profile-2"))])
            for fast_rows, slow_rows in frames
        )
    )


def both_samples(metric: str, fast: float, slow: float) -> pl.DataFrame:
    """Return table sample with a metric of either profile."""
    return pl.concat(
        samples({metric: [value]}, run_id)
        for run_id, value in zip(PROFILES.values(), (fast, slow), strict=True)
    )


def _named(worker: NodeGroup, node_type: str, count: int, inter_op_threads: int) -> NodeGroup:
    named = {"node_type": node_type, "count": count, "inter_op_threads": inter_op_threads}
    return worker.model_copy(update=named)
