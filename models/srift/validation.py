"""How much passes err on batch sizes that they were not fitted to (section 5.3, Table 6)."""

from collections.abc import Iterable

import numpy as np
import polars as pl

from models.srift import latency


def held_out_errors(profiled: pl.DataFrame, held_out: pl.DataFrame) -> pl.DataFrame:
    """Forecast the passes of batch sizes that were timed apart from the profile.

    Args:
        profiled: table compute, of one network on one node type.
        held_out: the same of other batch sizes.

    Returns:
        batch_size; `forward_percent`, `backward_percent` and `both_percent`, the errors of mean
        times with their sign; `floor_percent`, the standard error of the mean of both passes, which
        says how well that time is known.

    Raises:
        BadInput: as `latency.fit`.
    """
    fitted = latency.fit(profiled)
    sizes = held_out["batch_size"].unique().sort()
    return _errors(_pass_error(fitted, held_out.filter(batch_size=size)) for size in sizes)


def _errors(rows: Iterable[tuple[float, ...]]) -> pl.DataFrame:
    names = ("forward_percent", "backward_percent", "both_percent", "floor_percent")
    schema = {"batch_size": pl.Int64} | dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def _pass_error(fitted: latency.Latency, left: pl.DataFrame) -> tuple[float, ...]:
    """Return how much the passes of one batch size are forecast wrong: a row of `_errors`."""
    batch_size = int(left["batch_size"][0])
    predicted = float(fitted.forward(batch_size)), float(fitted.backward(batch_size))
    forward, backward = (left[name].to_numpy() for name in ("forward_s", "backward_s"))
    both = forward + backward
    error = both.std(ddof=1) / np.sqrt(len(both)) if len(both) > 1 else np.nan
    return (
        batch_size,
        100 * (predicted[0] / forward.mean() - 1),
        100 * (predicted[1] / backward.mean() - 1),
        100 * (sum(predicted) / both.mean() - 1),
        100 * error / both.mean(),
    )
