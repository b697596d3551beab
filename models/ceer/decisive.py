"""Which operations decide which instance is better (the question behind Figs. 2 and 3)."""

from typing import Literal

import polars as pl

from models.ceer.operations import NetworkOperations
from models.ceer.predictor import Ceer
from models.ceer.recommendation import InstanceCandidate


def decisive_operations(
    model: Ceer,
    network: NetworkOperations,
    choice: InstanceCandidate,
    other: InstanceCandidate,
    *,
    samples: int,
    by: Literal["time", "cost"] = "cost",
    other_network: NetworkOperations | None = None,
) -> pl.DataFrame:
    """Return which operations make one candidate better than another, the most decisive first.

    Args:
        model: what predicted both.
        network: what is trained.
        choice: one of `Recommended.ranking`.
        other: another one, for example the second, or what a strategy would take.
        samples: of an epoch.
        by: sort by the difference in time or in cost.
        other_network: what `other` trains, where its batch per device is another.

    Returns:
        type (an operation type, or S), choice_s and other_s (of an epoch), difference_s (choice −
        other: what is negative speaks for the choice), and the same in US dollars.
    """
    mine = _by_type(model, network, choice, samples, "choice")
    theirs = _by_type(model, other_network or network, other, samples, "other")
    column = {"time": "difference_s", "cost": "difference_usd"}[by]
    return (
        mine.join(theirs, on="type")
        .with_columns(
            (pl.col(f"choice_{unit}") - pl.col(f"other_{unit}")).alias(f"difference_{unit}")
            for unit in ("s", "usd")
        )
        .sort([pl.col(column).abs(), "type"], descending=[True, False], nulls_last=True)
    )


def _by_type(
    model: Ceer, network: NetworkOperations, one: InstanceCandidate, samples: int, who: str
) -> pl.DataFrame:
    """Return type, and seconds and dollars of an epoch, of every operation type and of S."""
    steps = samples / (one.devices * network.batch_size)
    step_us = (pl.col("count") * pl.col("us")).sum()
    # The time of operations that nobody measured is not 0.
    known_us = pl.when(pl.col("us").is_not_null().all()).then(step_us)
    spent = (
        model.operations(network, [one.node_type])
        .group_by("type", maintain_order=True)
        .agg(known_us.alias("us"))
        .select("type", s=pl.col("us") * steps / 1e6)
    )
    predicted = model.predict(network, [one.node_type], devices=[one.devices])
    here = predicted.filter(pl.col("link_mbps").eq_missing(pl.lit(one.link_mbps, pl.Float64)))
    overhead = pl.DataFrame({"type": ["S"], "s": [here["overhead_s"][0] * steps]})
    return pl.concat([spent, overhead]).select(
        "type",
        pl.col("s").alias(f"{who}_s"),
        (pl.col("s") * one.usd_per_hour / 3600).alias(f"{who}_usd"),
    )
