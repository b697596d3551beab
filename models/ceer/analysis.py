"""What profiles say of operations, without a model (section III)."""

from collections.abc import Mapping

import polars as pl

from models.ceer.classes import Classes

MICROSECONDS_PER_HOUR = 3.6e9


def type_times(
    rows: pl.DataFrame, classes: Classes, usd_per_hour: Mapping[str, float] | None = None
) -> pl.DataFrame:
    """Return what an operation of each type takes, and costs, on each node type (Figs. 2 and 3).

    Args:
        rows: as `models.ceer.observed.computing` returns them.
        classes: of the types.
        usd_per_hour: price of one device by node type; a node type without one has no cost.

    Returns:
        type, class, node_type, operations (in all steps together), mean_us, input_mb (mean, NULL:
        not known) and usd (of one operation), sorted by type and mean_us.
    """
    prices = pl.DataFrame(
        list((usd_per_hour or {}).items()),
        schema={"node_type": pl.String, "usd_per_hour": pl.Float64},
        orient="row",
    )
    count = pl.col("count")
    mean_us = ((count * pl.col("mean_us")).sum() / count.sum()).alias("mean_us")
    known = pl.col("input_bytes").is_not_null()
    input_mb = (count * pl.col("input_bytes")).sum() / count.filter(known).sum() / 1e6
    names = {one: classes.of(one) for one in rows["type"].unique()}
    return (
        rows.group_by("type", "node_type")
        .agg(count.sum().alias("operations"), mean_us, input_mb.fill_nan(None).alias("input_mb"))
        .join(prices, on="node_type", how="left")
        .select(
            "type",
            pl.col("type").replace_strict(names, return_dtype=pl.String).alias("class"),
            "node_type",
            "operations",
            "mean_us",
            "input_mb",
            (pl.col("mean_us") * pl.col("usd_per_hour") / MICROSECONDS_PER_HOUR).alias("usd"),
        )
        .sort("type", "mean_us")
    )


def deviations(rows: pl.DataFrame, classes: Classes) -> pl.DataFrame:
    """Return the distribution of each operation's standard deviation over its mean (Fig. 5).

    The paper has 95 % of heavy operations below 0.1.

    Returns:
        class, node_type, deviation (over the steps of a profile) and share: of all operations of
        the class on the node type, how many vary by no more. One row per measured operation.
    """
    names = {one: classes.of(one) for one in rows["type"].unique()}
    group = ["class", "node_type"]
    return (
        rows.filter(pl.col("mean_us") > 0)
        .select(
            pl.col("type").replace_strict(names, return_dtype=pl.String).alias("class"),
            "node_type",
            (pl.col("sd_us") / pl.col("mean_us")).alias("deviation"),
            "count",
        )
        .sort(*group, "deviation")
        .with_columns(
            (pl.col("count").cum_sum() / pl.col("count").sum()).over(group).alias("share")
        )
        .drop("count")
    )


def scaling(steps: pl.DataFrame) -> pl.DataFrame:
    """Return by how much an epoch is shorter on k devices than on one (Fig. 6).

    Args:
        steps: `models.ceer.overhead.STEPS`; k devices take k batches in a step.

    Returns:
        dnn, image_size, batch_size, node_type, link_mbps, devices, relative_time (of an epoch, to
        that of one device) and step_s; steps without a profiled one are left out. The paper's
        relative times of Inception v1 are 0.64, 0.53 and 0.46 for 2, 3 and 4.
    """
    same = ["dnn", "image_size", "batch_size", "node_type"]
    mean = steps.group_by(*same, "link_mbps", "devices").agg(pl.col("step_s").mean())
    alone = mean.filter(pl.col("devices") == 1).group_by(same).agg(pl.col("step_s").mean())
    relative = pl.col("step_s") / pl.col("devices") / pl.col("step_s_alone")
    return (
        mean.join(alone, on=same, suffix="_alone")
        .select(*same, "link_mbps", "devices", relative.alias("relative_time"), "step_s")
        .sort(*same, "link_mbps", "devices")
    )
