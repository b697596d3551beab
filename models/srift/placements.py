"""Steps of data-parallel jobs that others timed: computation, and an exchange of unknown size.

What replicas add to a step of one is, as in section 4.2, bytes over bandwidth. Neither is written
down, so each network has a size, and each placement seconds for every unit of it: the logarithms
add up, and are found by polishing with medians (Tukey, Exploratory Data Analysis, 1977).
"""

import json
from dataclasses import dataclass

import polars as pl

from warehouse.records import BadInput

_ALONE = ("dnn", "node_type", "batch_size")
_PLACE = ("node_type", "place")
_ROUNDS = 20


@dataclass(frozen=True)
class Placements:
    """Seconds of one replica's step, and what exchanges add.

    `alone_s` by network, node type and batch; `size` the logarithm of each network's exchange,
    `slowness` that of the seconds which a unit of it takes in each placement.
    """

    alone_s: pl.DataFrame
    size: pl.DataFrame
    slowness: pl.DataFrame

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of subjects in known placements.

        Args:
            subjects: subject_id, dnn, node_type, batch_size (of a replica) and placement.
        """
        rows = (
            _placed(subjects)
            .join(self.alone_s, on=_ALONE, maintain_order="left")
            .join(self.size, on="dnn", maintain_order="left")
            .join(self.slowness, on=_PLACE, maintain_order="left")
        )
        none = pl.lit(None, pl.Float64)
        exchange_s = (pl.col("size") + pl.col("slowness")).exp()
        return rows.select("subject_id", value=pl.col("alone_s") + exchange_s, low=none, high=none)

    def parameters_json(self) -> str:
        """Return all three tables."""
        tables = {"alone_s": self.alone_s, "size": self.size, "slowness": self.slowness}
        return json.dumps({name: one.to_dicts() for name, one in tables.items()}, sort_keys=True)


def fit_placements(rows: pl.DataFrame) -> Placements:
    """Fit to steps of some networks on several nodes and of others on one.

    Args:
        rows: value (seconds), dnn, node_type, batch_size (of a replica), placement (replicas on
            each node, digit by digit) and world_size.

    Raises:
        BadInput: no network was timed with one replica and with several.
    """
    means = _placed(rows).group_by(*_ALONE, "place", "world_size").agg(pl.col("value").mean())
    alone = means.filter(world_size=1).select(*_ALONE, alone_s="value").sort(_ALONE)
    added = (
        means.filter(pl.col("world_size") > 1)
        .join(alone, on=_ALONE)
        .group_by("dnn", *_PLACE)
        .agg(exchange_s=(pl.col("value") - pl.col("alone_s")).mean())
        # An exchange too short to be told from noise says nothing of a ratio.
        .filter(pl.col("exchange_s") > 0)
        .with_columns(size=pl.lit(0.0), slowness=pl.lit(0.0))
    )
    if added.is_empty():
        raise BadInput("no network was timed with one replica and with several; found no exchange")
    left = pl.col("exchange_s").log()
    for _ in range(_ROUNDS):
        added = added.with_columns(slowness=(left - pl.col("size")).median().over(_PLACE))
        added = added.with_columns(size=(left - pl.col("slowness")).median().over("dnn"))
    return Placements(
        alone,
        added.select("dnn", "size").unique().sort("dnn"),
        added.select(*_PLACE, "slowness").unique().sort(_PLACE),
    )


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `place`: how many replicas are on each node, most first."""
    digits = pl.col("placement").cast(pl.String).str.split("").list.sort(descending=True)
    return rows.with_columns(place=digits.list.join(""))
