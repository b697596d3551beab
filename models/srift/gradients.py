"""When each layer's gradient is there, and how surely (section 4.1)."""

import polars as pl
from pydantic import Field, model_validator

from warehouse.records import BadInput, Record


class Gradients(Record):
    """The layers of a network, in the order in which they are registered.

    `ready` is when a gradient is there, 0 to 1 of the backward pass, which lets one measurement
    serve all batch sizes; `probability` is with which a layer is executed, below 1 in networks with
    conditional branches.
    """

    layer_bytes: tuple[int, ...] = Field(min_length=1)
    ready: tuple[float, ...]
    probability: tuple[float, ...]

    @model_validator(mode="after")
    def _equally_many(self) -> "Gradients":
        if not len(self.layer_bytes) == len(self.ready) == len(self.probability):
            raise ValueError("every layer needs one size, one time and one probability")
        return self


def fit(layers: pl.DataFrame, layer_times: pl.DataFrame) -> Gradients:
    """Fit to tables layer and layer_time of one network on one node type.

    The mean over batch sizes and trials counts. A layer without `gradient_ready` in some trials was
    not executed in those; one that never was is expected at the end, with probability 0.

    Raises:
        BadInput: no layers, no trials, or times outside of the backward pass.
    """
    trials = layer_times.select("run_id", "batch_size", "trial").n_unique()
    if layers.is_empty() or not trials:
        raise BadInput(
            f"expected layers and their times, found {layers.height} layers in {trials} trials; "
            "profile the network again"
        )
    ready = pl.col("gradient_ready")
    outside = layer_times.filter((ready < 0) | (ready > 1))
    if not outside.is_empty():
        raise BadInput(
            f"table layer_time: gradient_ready must be 0 to 1 of the backward pass, found "
            f"{outside['gradient_ready'][0]}; profile again"
        )
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
