"""Linear scaling of what others measured: W workers do W times the work of one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from models.linear_scaling import of_all, of_one
from warehouse.records import BadInput

PREDICTED = ("subject_id", "value", "low", "high")
_VALUE, _WORKERS = pl.col("value"), pl.col("world_size")


@dataclass(frozen=True)
class LinearRows:
    """Means of what was seen, by the columns `same`; a rate is per worker and grows with them."""

    known: pl.DataFrame
    same: tuple[str, ...]
    rate: bool

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value, low and high (NULL) of the subjects of which one was seen.

        Args:
            subjects: subject_id, world_size and the columns that were fitted.
        """
        rows = _derived(subjects).join(self.known, on=self.same, maintain_order="left")
        value = of_all(_VALUE, _WORKERS) if self.rate else _VALUE
        none = pl.lit(None, pl.Float64)
        return rows.select("subject_id", value=value, low=none, high=none)

    def parameters_json(self) -> str:
        """Return the means, one object per combination of columns."""
        return json.dumps({"rate": self.rate, "known": self.known.to_dicts()}, sort_keys=True)


def fit_rates(*same: str) -> Callable[[pl.DataFrame], LinearRows]:
    """Return what fits steps or samples per second of workers that are alike in the columns `same`.

    It is given these, world_size and value, and raises BadInput where there are no rows.
    """
    return partial(_fit, same=same, rate=True)


def fit_step_times(rows: pl.DataFrame) -> LinearRows:
    """Fit seconds per step of data-parallel replicas on one node: more nodes do not slow a step.

    Args:
        rows: dnn, node_type, batch_size (of a replica), placement (replicas on each node, digit by
            digit), world_size and value.

    Raises:
        BadInput: there are no rows.
    """
    return _fit(rows, ("dnn", "node_type", "batch_size", "most_on_a_node"), rate=False)


def _fit(rows: pl.DataFrame, same: Sequence[str], *, rate: bool) -> LinearRows:
    if rows.is_empty():
        raise BadInput("linear scaling needs a measurement to start from; found no rows")
    value = of_one(_VALUE, _WORKERS) if rate else _VALUE
    known = _derived(rows).group_by(same).agg(value=value.mean()).sort(same)
    return LinearRows(known, tuple(same), rate)


def _derived(rows: pl.DataFrame) -> pl.DataFrame:
    if "placement" not in rows.columns:
        return rows
    digits = pl.col("placement").cast(pl.String).str.split("").cast(pl.List(pl.Int64))
    return rows.with_columns(most_on_a_node=digits.list.max())
