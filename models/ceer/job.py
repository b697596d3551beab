"""Time and cost of an epoch from the time of a step (section IV-A)."""

import polars as pl

from warehouse.records import BadInput

IMAGENET_SAMPLES = 1_200_000
"""D of the paper (section V)."""


def epochs(predicted: pl.DataFrame, samples: int = IMAGENET_SAMPLES) -> pl.DataFrame:
    """Return predicted steps with time_s, time_low_s and time_high_s of one pass over `samples`.

    An epoch has D / (k B) steps of k devices that take a batch of B each.

    Args:
        predicted: `models.ceer.steps.PREDICTED`.
        samples: D.

    Raises:
        BadInput: no samples.

    Source: Hafeez, Gandhi, Ceer, equation 2.
    """
    if samples < 1:
        raise BadInput(f"samples of an epoch: expected 1 or more, found {samples}")
    steps = samples / (pl.col("devices") * pl.col("batch_size"))
    return predicted.with_columns(
        (pl.col("step_s") * steps).alias("time_s"),
        (pl.col("low_s") * steps).alias("time_low_s"),
        (pl.col("high_s") * steps).alias("time_high_s"),
    )
