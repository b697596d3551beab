"""Passes: how long forward and backward take, and when gradients are ready (section 4.1)."""

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from warehouse.records import BadInput, Record

Floats = NDArray[np.float64]


_DEVIATION = (pl.col("total_s").diff().pow(2).mean() / 2).sqrt()
"""Of trials in the order in which they were; half the mean square of successive differences."""


class PiecewiseLinear(Record):
    """Seconds at the sampled batch sizes, lines between them, the outer lines beyond.

    Source: section 4.1, equation (1) for each segment.
    """

    batch_sizes: tuple[int, ...] = Field(min_length=2)
    seconds: tuple[float, ...]

    @model_validator(mode="after")
    def _rising(self) -> "PiecewiseLinear":
        if len(self.batch_sizes) != len(self.seconds):
            raise ValueError(
                f"{len(self.batch_sizes)} batch sizes have {len(self.seconds)} times; "
                "each needs exactly one"
            )
        if any(low >= high for low, high in pairwise(self.batch_sizes)):
            raise ValueError(f"batch sizes must rise, found {self.batch_sizes}")
        return self

    def __call__(self, batch_size: ArrayLike) -> Floats:
        """Return seconds for batch sizes (any shape), never below 0."""
        batch_sizes = np.asarray(batch_size, dtype=np.float64)
        x, y = np.array(self.batch_sizes, dtype=np.float64), np.array(self.seconds)
        segment = np.clip(np.searchsorted(x, batch_sizes) - 1, 0, len(x) - 2)
        slope = np.diff(y) / np.diff(x)
        return np.maximum(y[segment] + slope[segment] * (batch_sizes - x[segment]), 0.0)

    def times(self, factor: float) -> "PiecewiseLinear":
        """Return the same with all times multiplied."""
        return PiecewiseLinear(
            batch_sizes=self.batch_sizes, seconds=tuple(factor * step_s for step_s in self.seconds)
        )


class Latency(Record):
    """Seconds of the passes of one network on one device, and how much they scatter.

    `update_s` is the update of the parameters, which overlaps neither the passes nor the exchange.
    `straggler_scale` is the standard deviation of an iteration's computation over its mean
    (footnote 3), among nodes and iterations: one for all batches, as in the paper, unless
    `deviation` says how many seconds it is at each.
    """

    forward: PiecewiseLinear
    backward: PiecewiseLinear
    update_s: float = Field(default=0.0, ge=0)
    straggler_scale: float = Field(default=0.0, ge=0)
    deviation: PiecewiseLinear | None = None

    def straggling(self, share: float) -> "Latency":
        """Return the same of which only a share scatters from node to node."""
        deviation = self.deviation and self.deviation.times(share)
        scale = share * self.straggler_scale
        return self.model_copy(update={"straggler_scale": scale, "deviation": deviation})

    def at_pace(self, pace: float) -> "Latency":
        """Return the same with everything taking `pace` times as long."""
        return self.model_copy(
            update={
                "forward": self.forward.times(pace),
                "backward": self.backward.times(pace),
                "update_s": pace * self.update_s,
                "deviation": self.deviation and self.deviation.times(pace),
            }
        )

    def scale(self, batch_size: ArrayLike) -> Floats:
        """Return standard deviation over mean of an iteration's computation (any shape)."""
        if self.deviation is None:
            return np.full(np.shape(batch_size), self.straggler_scale)
        scale: Floats = self.deviation(batch_size) / self.alone_s(batch_size)
        return scale

    def alone_s(self, batch_size: ArrayLike) -> Floats:
        """Return seconds of an iteration that waits for no other node (any shape)."""
        return self.forward(batch_size) + self.backward(batch_size) + self.update_s


def sample_points(max_batch: int) -> tuple[int, ...]:
    """Return the batch sizes to sample: 1, a third, two thirds and all of the largest.

    Source: section 4.1.
    """
    return tuple(sorted({1, max(max_batch // 3, 1), max(2 * max_batch // 3, 1), max_batch}))


def check_batch_sizes(batch_sizes: Collection[int]) -> None:
    """Refuse batch sizes through which no line goes.

    Raises:
        BadInput: fewer than two.
    """
    if len(set(batch_sizes)) < 2:
        listed = ", ".join(map(str, batch_sizes)) or "none"
        raise BadInput(
            f"expected at least two batch sizes (four as Srift), found {listed}; profile more"
        )


def fit(compute: pl.DataFrame) -> Latency:
    """Fit to rows of table compute of one network on one kind of device.

    Batch sizes become the ends of segments, the mean over trials and ranks their time; the
    straggler scale is the mean over batch sizes of standard deviation / mean. Where each of them
    has two trials, the standard deviation has the same ends of segments. It is that of successive
    trials (von Neumann): what a slow minute adds to all of its steps is no straggling.

    Raises:
        BadInput: fewer than two batch sizes.
    """
    check_batch_sizes(compute["batch_size"].unique().sort().to_list())
    order = [name for name in ("run_id", "rank", "trial") if name in compute.columns]
    total = pl.col("forward_s") + pl.col("backward_s") + pl.col("update_s").fill_null(0.0)
    points = (
        compute.with_columns(total_s=total)
        .sort("batch_size", *order, maintain_order=True)
        .group_by("batch_size", maintain_order=True)
        .agg(
            pl.col("forward_s", "backward_s", "update_s").mean(),
            deviation_s=_DEVIATION,
            scale=_DEVIATION / pl.col("total_s").mean(),
        )
    )
    batch_sizes = tuple(points["batch_size"])
    update_s, scale = points.select(pl.col("update_s", "scale").mean()).row(0)
    return Latency(
        forward=PiecewiseLinear(batch_sizes=batch_sizes, seconds=tuple(points["forward_s"])),
        backward=PiecewiseLinear(batch_sizes=batch_sizes, seconds=tuple(points["backward_s"])),
        update_s=update_s or 0.0,
        straggler_scale=scale or 0.0,
        deviation=PiecewiseLinear(batch_sizes=batch_sizes, seconds=tuple(points["deviation_s"]))
        if points["deviation_s"].null_count() == 0
        else None,
    )


# How much passes err on batch sizes that they were not fitted to (section 5.3, Table 6).


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
        BadInput: as `fit`.
    """
    fitted, both = fit(profiled), pl.col("forward_s") + pl.col("backward_s")
    means = (
        held_out.group_by("batch_size")
        .agg(
            pl.col("forward_s", "backward_s").mean(),
            both_s=both.mean(),
            floor_s=(both.std() / pl.len().sqrt()).fill_null(float("nan")),
        )
        .sort("batch_size")
    )
    sizes = means["batch_size"].to_numpy()
    forward_s, backward_s = pl.Series(fitted.forward(sizes)), pl.Series(fitted.backward(sizes))
    return means.select(
        pl.col("batch_size").cast(pl.Int64),
        forward_percent=100 * (forward_s / pl.col("forward_s") - 1),
        backward_percent=100 * (backward_s / pl.col("backward_s") - 1),
        both_percent=100 * ((forward_s + backward_s) / pl.col("both_s") - 1),
        floor_percent=100 * pl.col("floor_s") / pl.col("both_s"),
    )


# When each layer's gradient is there, and how surely (section 4.1).


class Gradients(NamedTuple):
    """The layers of a network, in the order in which they are registered.

    `ready` is when a gradient is there, 0 to 1 of the backward pass, which lets one measurement
    serve all batch sizes; `probability` is with which a layer is executed, below 1 in networks with
    conditional branches.
    """

    layer_bytes: tuple[int, ...]
    ready: tuple[float, ...]
    probability: tuple[float, ...]


def fit_gradients(layers: pl.DataFrame, layer_times: pl.DataFrame) -> Gradients:
    """Fit to tables layer and layer_time of one network on one node type.

    The mean over batch sizes and trials counts. A layer without `gradient_ready` in some trials was
    not executed in those; one that never was is expected at the end, with probability 0.
    """
    trials = layer_times.select("run_id", "batch_size", "trial").n_unique()
    ready = pl.col("gradient_ready")
    seen = layer_times.group_by("layer").agg(
        ready.mean().alias("ready"), (ready.count() / trials).alias("probability")
    )
    rows = (
        layers.unique("layer")
        .join(seen, on="layer", how="left")
        .sort("layer")
        .with_columns(pl.col("ready").fill_null(1.0), pl.col("probability").fill_null(0.0))
    )
    return Gradients(
        layer_bytes=tuple(rows["gradient_bytes"]),
        ready=tuple(rows["ready"]),
        probability=tuple(rows["probability"]),
    )
