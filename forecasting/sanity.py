"""What cannot be, or should not be, in measurements and predictions: one line for each offence."""

from collections.abc import Mapping

import polars as pl

from profilers.links.probe import LEAST_GOODPUT, sum_simultaneous
from profilers.steady.host import MOST_STOLEN

MOST_GOODPUT = 1.05
"""Share of the shaped speed; above 1 only by the bucket that a trial starts with."""
LEAST_IDLE = 0.20
LEAST_CAPTURED = 0.95
ABOVE_BOUND, ABOVE_LINEAR = 1.05, 1.05
"""How far predictions may exceed a bound that was itself measured."""


def odd_links(links: pl.DataFrame, link_mbps: float | None) -> list[str]:
    """Return directions whose goodput does not fit the speed links are shaped to.

    `links` has direction, flows, trial and bandwidth_Bps of links of one speed.
    """
    if link_mbps is None:
        return []
    totals = sum_simultaneous(links)
    low, high = LEAST_GOODPUT * link_mbps, MOST_GOODPUT * link_mbps
    return [
        f"{row['direction']}, {row['flows']} flow(s), trial {row['trial'] + 1}: "
        f"{row['mbps']:.0f} Mb/s on a link shaped to {link_mbps:g} Mb/s"
        for row in totals.filter(~pl.col("mbps").is_between(low, high)).to_dicts()
    ]


def odd_traces(
    operations: pl.DataFrame, timings: pl.DataFrame, *, transfers: bool = True
) -> list[str]:
    """Return what makes the trace of one run useless: no `transfers`, or steps that differ.

    TensorFlow's tracer now and then loses a record, so a minority of steps may lack some.
    """
    resources = set(operations["resource"])
    expected = ("downlink", "uplink") if transfers else ()
    faults = [f"no {resource} transfer" for resource in expected if resource not in resources]
    per_step = timings.group_by("step").agg(pl.col("operation").n_unique())["operation"]
    everything = timings["operation"].n_unique()
    whole = (per_step == everything).sum()
    if 2 * whole <= len(per_step):
        faults.append(
            f"only {whole} of {len(per_step)} traced steps have all {everything} operations"
        )
    return faults


def uncaptured(samples: pl.DataFrame) -> list[str]:
    """Return profiles with captures that lack more than a twentieth of the transfers.

    `samples` has name, metric and value.
    """
    share = samples.filter(metric="captured_fraction").filter(pl.col("value") < LEAST_CAPTURED)
    return [
        f"{row['name']}: packets of {100 * row['value']:.0f} % of the transfers"
        for row in share.to_dicts()
    ]


def disturbed_windows(samples: pl.DataFrame) -> list[str]:
    """Return windows in which the host was too busy, or lost processor time to other guests.

    That is less than `LEAST_IDLE` idle, or more than `MOST_STOLEN` stolen by its hypervisor.
    """
    limits = {
        "idle": (pl.col("metric") == "idle_cpu_fraction") & (pl.col("value") < LEAST_IDLE),
        "stolen": (pl.col("metric") == "stolen_cpu_fraction") & (pl.col("value") > MOST_STOLEN),
    }
    return [
        f"{row['name']}, window {row['window'] + 1}: {100 * row['value']:.0f} % {what}"
        for what, limit in limits.items()
        for row in samples.filter(limit, pl.col("window").is_not_null()).to_dicts()
    ]


def link_bounds(operations: pl.DataFrame, links: pl.DataFrame) -> dict[int, float]:
    """Return the steps per second at which a server's link is full in a direction, by curve.

    `operations` are those of traced curves with curve, link_mbps, resource, server and size_bytes,
    `links` the trials on their links with link_mbps, direction, flows and bandwidth_Bps.
    """
    sizes = operations.group_by("curve", "link_mbps", "server", direction="resource").agg(
        size_bytes=pl.col("size_bytes").sum()
    )
    speeds = (
        links.filter(pl.col("flows") == 1)
        .group_by("link_mbps", "direction")
        .agg(speed_Bps=pl.col("bandwidth_Bps").mean())
    )
    bounds = (
        sizes.join(speeds, on=["link_mbps", "direction"], nulls_equal=True)
        .filter(pl.col("size_bytes") > 0)
        .group_by("curve")
        .agg(bound=(pl.col("speed_Bps") / pl.col("size_bytes")).min())
    )
    return dict(bounds.rows())


def impossible(forecast: pl.DataFrame, bounds: Mapping[int, float]) -> list[str]:
    """Return predictions above the bound of their curve; `forecast` has curve, label, predicted."""
    limit = pl.col("curve").replace_strict(bounds, return_dtype=pl.Float64)
    return _above(forecast.with_columns(limit=ABOVE_BOUND * limit), "the links carry at most")


def superlinear(forecast: pl.DataFrame) -> list[str]:
    """Return predictions above linear scaling; `forecast` has label, predicted and linear."""
    limit = ABOVE_LINEAR * pl.col("linear")
    return _above(forecast.with_columns(limit=limit), "linear scaling gives at most")


def _above(rows: pl.DataFrame, what: str) -> list[str]:
    too_high = rows.filter(pl.col("predicted") > pl.col("limit"))
    return [
        f"{row['label']}: {row['predicted']:.2f} steps/s predicted, {what} {row['limit']:.2f}"
        for row in too_high.to_dicts()
    ]
