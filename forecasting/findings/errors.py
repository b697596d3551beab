"""How wrong predictions are, by network, batch size and number of workers."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from forecasting.results import apart, counts
from studies.study import Study


@dataclass(frozen=True)
class Errors:
    """Errors of the judged scenarios of a round, in percent.

    Attributes:
        by_batch: dnn, batch_size, and of scenarios with two or more workers n, mean, absolute (mean
            of absolute errors) and largest; sorted by the first two. What was measured while the
            host was busy does not count.
        by_network: the curves of each network with their names, in the order of the study: workers
            and error_percent. A network without a curve of several numbers of workers has none.
    """

    by_batch: pl.DataFrame
    by_network: Mapping[str, tuple[tuple[str, pl.DataFrame], ...]]


def errors(study: Study, rows: pl.DataFrame) -> Errors | None:
    """Return the errors of a round; None if nothing was judged.

    Args:
        study: whose round it is.
        rows: as `forecasting.results.outcome` returns them.
    """
    batches = [curve.batch_size for curve in study.curves]
    judged = rows.filter(pl.col("error_percent").is_not_null()).with_columns(
        batch_size=pl.col("curve").replace_strict(range(len(batches)), batches)
    )
    if judged.is_empty():
        return None
    error = pl.col("error_percent")
    by_batch = (
        judged.filter(counts(rows), ~pl.col("host_busy"))
        .group_by("dnn", "batch_size")
        .agg(n=pl.len(), mean=error.mean(), absolute=error.abs().mean(), largest=error.abs().max())
        .sort("dnn", "batch_size")
    )
    several = pl.col("workers").n_unique().over("curve").max().over("dnn") > 1
    networks = judged.filter(several).partition_by("dnn", maintain_order=True)
    return Errors(by_batch, {one["dnn"][0]: _curves(one) for one in networks})


def _curves(rows: pl.DataFrame) -> tuple[tuple[str, pl.DataFrame], ...]:
    dnn = rows["dnn"][0]
    curves = rows.partition_by("curve", maintain_order=True)
    names = apart([one["title"][0].removeprefix(f"{dnn} ") for one in curves])
    return tuple(
        (name, one.select("workers", "error_percent"))
        for name, one in zip(names, curves, strict=True)
    )
