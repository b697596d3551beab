"""Scenarios of TensorFlow that one start of their job measures, and the table of their steps."""

from collections.abc import Sequence

import polars as pl

from warehouse.records import BadInput, Scenario

STEP_SCHEMA = {
    "worker": pl.Int16,
    "step": pl.Int32,
    "window": pl.Int16,
    "traced": pl.Boolean,
    "start_us": pl.Int64,
    "end_us": pl.Int64,
}
"""Columns of table step, as measured runs land it."""


def check_family(scenarios: Sequence[Scenario], workers: int) -> Scenario:
    """Return the scenario of most workers; the others only have fewer of them.

    Raises:
        BadInput: they differ in more than W, or need more than `workers`.
    """
    largest = max(scenarios, key=lambda scenario: scenario.strategy.workers)
    for scenario in scenarios:
        # Not the other way round: with a single worker nobody knows the types of further ones.
        if largest.with_workers(scenario.strategy.workers) != scenario:
            raise BadInput(f"{scenario.label} and {largest.label} differ in more than W")
    if largest.strategy.workers > workers:
        raise BadInput(f"{largest.label} needs more workers than the cluster's {workers}")
    return largest
