"""The first screen of a report: how wrong forecasts were, and when they were made."""

from dataclasses import dataclass

import polars as pl

from forecasting.results import counts


@dataclass(frozen=True)
class Opening:
    """What the first screen says beside the summary, of the same judged scenarios.

    Attributes:
        systems: that made the forecasts.
        nine_of_ten: the 90th percentile of absolute errors, percent, interpolated; None: no error.
        inside: the share of measurements inside of the interval, percent; None: there is none.
        inside_n: how many forecasts have an interval.
        sealed: how many forecasts were published before their scenarios were measured.
        before: how many more had been made when the run that judges them began.
        after: how many were made later, from what had been profiled.
        points: workers, error_percent and linear_error_percent of every judged scenario.
    """

    systems: tuple[str, ...]
    nine_of_ten: float | None
    inside: float | None
    inside_n: int
    sealed: int
    before: int
    after: int
    points: pl.DataFrame

    @property
    def inside_count(self) -> int:
        """How many measurements were inside."""
        return round((self.inside or 0.0) * self.inside_n / 100)


def opening(rows: pl.DataFrame) -> Opening:
    """Return what the first screen says of rows of `forecasting.findings.standing`.

    The same scenarios count as in the summary, and those of a busy host do not.
    """
    judged = rows.filter(pl.col("error_percent").is_not_null())
    counted = judged.filter(counts(rows), ~pl.col("host_busy"))
    made = counted["made"].to_list()
    inside = counted.select(pl.col("measured").is_between("low", "high")).to_series().drop_nulls()
    share = 100 * sum(inside) / len(inside) if len(inside) else None
    return Opening(
        systems=tuple(counted["system"].drop_nulls().unique().sort()),
        nine_of_ten=counted["error_percent"].abs().quantile(0.9, "linear"),
        inside=share,
        inside_n=len(inside),
        sealed=made.count("sealed"),
        before=made.count("before"),
        after=made.count("after"),
        points=judged.select("workers", "error_percent", "linear_error_percent"),
    )
