"""From the kernels that a GPU ran to the operators that launched them.

A profiler times each kernel by itself and names the operator around its launch. How many operators
there were is known from the host, which ran each of them once.
"""

from collections.abc import Sequence

import polars as pl

_WORKS_ON = ("type", "inputs", "attributes")
_TIMES = ("mean_us", "median_us", "sd_us")


def by_operator(kernels: pl.DataFrame, host: pl.DataFrame, step: Sequence[str]) -> pl.DataFrame:
    """Return a row per kind of operator: how many a step has, and the sum of its kernels' times.

    Kernels of which the host says nothing stay as they are.

    Args:
        kernels: `models.ceer.observed.OBSERVED` of a GPU.
        host: the same of its host.
        step: the columns that tell one profiled step from another.
    """
    key = [*step, *_WORKS_ON]
    calls = host.group_by(key).agg(pl.col("count").sum().alias("calls"))
    known = kernels.join(calls, on=key, how="left", nulls_equal=True, maintain_order="left")
    launched = known.filter(pl.col("calls").is_not_null())
    per_call = [(pl.col(name) * pl.col("count")).sum() / pl.col("calls").first() for name in _TIMES]
    others = [name for name in kernels.columns if name not in (*key, *_TIMES, "count")]
    operators = (
        launched.group_by(key, maintain_order=True)
        .agg(pl.col("calls").first().alias("count"), *per_call, pl.col(others).first())
        .select(kernels.columns)
    )
    return pl.concat([operators, known.filter(pl.col("calls").is_null()).drop("calls")])
