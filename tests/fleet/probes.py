"""Made-up probes of a node type: what each window of each measured, by metric."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import polars as pl

Figures = Mapping[str, Sequence[float]]
"""The values of a probe's windows, by metric."""
_SCHEMA: dict[str, pl.DataType] = {
    "run_id": pl.String(),
    "started_at": pl.Datetime("us", "UTC"),
    "boot": pl.String(),
    "machine": pl.String(),
    "metric": pl.String(),
    "window": pl.Int64(),
    "value": pl.Float64(),
}


def windows(
    probes: Sequence[Figures], boots: Sequence[str], first: int = 0, *, is_rented: bool = False
) -> pl.DataFrame:
    """Return the windows of probes, one a day, on these starts of the host.

    They are of one machine or, where these are rented, each of another one.
    """
    rows = [
        (
            f"probe-{day}",
            _morning(day),
            boot,
            f"machine-{day if is_rented else 0}",
            metric,
            window,
            float(value),
        )
        for day, (probe, boot) in enumerate(zip(probes, boots, strict=True), start=first)
        for metric, values in probe.items()
        for window, value in enumerate(values)
    ]
    return pl.DataFrame(rows, _SCHEMA, orient="row")


def _morning(day: int) -> datetime:
    return datetime(2026, 1, 1, 3, tzinfo=UTC) + timedelta(days=day)
