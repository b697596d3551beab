"""How wrong step times of data-parallel training are (Table 5 and Fig. 7 of Srift)."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from studies.study import Study

UNDERESTIMATED = 0.9
"""In this part of the scenarios step times are underestimated by at most what tables show."""


@dataclass(frozen=True)
class StepTimes:
    """Errors of step times of two or more nodes, in percent.

    Attributes:
        groups: name, n, mean, absolute (mean of absolute errors), largest, and under: by how much
            step times are underestimated at most in `UNDERESTIMATED` of the scenarios; NULL where
            a group has none. By node types, by number of nodes, of all; scenarios of one image on
            each node, where latency counts, are apart.
        error_percent: of each scenario, below 0 where the forecast was too small.
    """

    groups: pl.DataFrame
    error_percent: pl.Series


def step_times(study: Study, rows: pl.DataFrame) -> StepTimes | None:
    """Return the errors of a round by node types and number of nodes; None if none was judged.

    Args:
        study: whose round it is.
        rows: as `forecasting.results.outcome` returns them.
    """
    curves = [
        (" + ".join(sorted(set(curve.worker))), curve.batch_size == 1 and not curve.mix)
        for curve in study.curves
    ]
    of_curves = pl.DataFrame(curves, schema=["types", "single"], orient="row").with_row_index(
        "curve"
    )
    judged = rows.filter(pl.col("error_percent").is_not_null(), pl.col("workers") > 1).join(
        of_curves.with_columns(pl.col("curve").cast(rows.schema["curve"])), on="curve"
    )
    if judged.is_empty():
        return None
    groups = pl.concat(_figures(name, group) for name, group in _groups(judged))
    return StepTimes(groups, judged["error_percent"])


def _groups(judged: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    several = judged.filter(~pl.col("single"))
    for (name,), group in several.group_by("types", maintain_order=True):
        yield str(name), group
    for (workers,), group in several.sort("workers").group_by("workers", maintain_order=True):
        yield f"{workers} nodes", group
    yield "all", several
    yield "one image on each node", judged.filter("single")


def _figures(name: str, judged: pl.DataFrame) -> pl.DataFrame:
    error = pl.col("error_percent")
    return judged.select(
        name=pl.lit(name),
        n=pl.len(),
        mean=error.mean(),
        absolute=error.abs().mean(),
        largest=error.abs().max(),
        under=(-error.quantile(1 - UNDERESTIMATED, "linear")).clip(lower_bound=0),
    )
