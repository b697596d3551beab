"""Rates of several workers that others measured, forecast from one worker's by coarse models."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import polars as pl

from models import cynthia
from models.lin import mva
from models.linear_scaling import rate_of_all, rate_of_one
from warehouse.records import BadInput

# Coarse models of asynchronous SGD for what others measured: rates of several workers, from one.
#
# Nobody published what a step sends, so its part of one worker's step is learned: the one with
# which a model errs least on other networks and the same node type. lab/public-files.md says how
# well.


Form = Literal["lin", "cynthia"]
SETUP = ("node_type", "servers")
SHARES = tuple(thousandth / 1000 for thousandth in range(1001))
_NONE = pl.lit(None, pl.Float64)


def speedup(form: Form, share: float, workers: int) -> float:
    """Return how many times the steps of one worker several do.

    Args:
        form: "lin": workers queue for the server (models/lin.py). "cynthia": what they compute
            is stretched once the server has no time left (models/cynthia.py).
        share: of one worker's step, in which it has the server or a link of it, 0 to 1.
        workers: 1 or more.
    """
    if form == "lin":
        return mva((share,), 1 - share, workers)
    return cynthia.steps_per_s(1 - share, share, share, workers)


@dataclass(frozen=True)
class QueueRows:
    """Rates of one worker by network and setup, and the shares by setup."""

    form: Form
    alone: pl.DataFrame
    shares: pl.DataFrame

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (steps/s), low and high (NULL) of those that can be forecast.

        Of a network one worker was seen, and of its node type a share.

        Args:
            subjects: subject_id, dnn, node_type, servers and world_size.
        """
        rows = subjects.join(self.alone, on=["dnn", *SETUP], maintain_order="left")
        rows = rows.join(self.shares, on=SETUP, maintain_order="left")
        times = [
            speedup(self.form, share, workers)
            for share, workers in rows.select("share", "world_size").iter_rows()
        ]
        value = pl.col("alone") * pl.Series(times, dtype=pl.Float64)
        return rows.select("subject_id", value=value, low=_NONE, high=_NONE)

    def parameters_json(self) -> str:
        """Return the shares, and the rates of one worker."""
        shares, alone = self.shares.to_dicts(), self.alone.to_dicts()
        return json.dumps({"form": self.form, "shares": shares, "alone": alone}, sort_keys=True)


def fit_queue_rates(form: Form) -> Callable[[pl.DataFrame], QueueRows]:
    """Return what fits steps per second of one and several workers.

    It is given dnn, node_type, servers, world_size and value, and raises BadInput where no network
    was measured with one worker and with several.
    """
    return partial(_fit_queue, form=form)


def _fit_queue(rows: pl.DataFrame, form: Form) -> QueueRows:
    is_single = pl.col("world_size") == 1
    alone = rows.filter(is_single).group_by("dnn", *SETUP).agg(alone=pl.col("value").mean())
    several = rows.filter(~is_single).join(alone, on=["dnn", *SETUP])
    if several.is_empty():
        raise BadInput(
            f"{form} learns how far workers hinder each other from networks with one worker and "
            "with several; found none"
        )
    shares = [
        {**dict(zip(SETUP, key, strict=True)), "share": _share(form, part)}
        for key, part in several.sort(pl.all()).group_by(SETUP, maintain_order=True)
    ]
    return QueueRows(form, alone.sort(pl.all()), pl.DataFrame(shares))


def _share(form: Form, rows: pl.DataFrame) -> float:
    """Return the share of least squares of relative errors, to a thousandth."""
    seen = rows.select("world_size", pl.col("value") / pl.col("alone")).rows()

    def squares(share: float) -> float:
        errors = (speedup(form, share, workers) / times - 1 for workers, times in seen)
        return float(sum(error**2 for error in errors))

    return min(SHARES, key=squares)


# Linear scaling of what others measured: W workers do W times the work of one.


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
        value = rate_of_all(_VALUE, _WORKERS) if self.rate else _VALUE
        none = pl.lit(None, pl.Float64)
        return rows.select("subject_id", value=value, low=none, high=none)

    def parameters_json(self) -> str:
        """Return the means, one object per combination of columns."""
        return json.dumps({"rate": self.rate, "known": self.known.to_dicts()}, sort_keys=True)


def fit_linear_rates(*same: str) -> Callable[[pl.DataFrame], LinearRows]:
    """Return what fits steps or samples per second of workers that are alike in the columns `same`.

    It is given these, world_size and value, and raises BadInput where there are no rows.
    """
    return partial(_fit_linear, same=same, rate=True)


def fit_step_times(rows: pl.DataFrame) -> LinearRows:
    """Fit seconds per step of data-parallel replicas on one node: more nodes do not slow a step.

    Args:
        rows: dnn, node_type, batch_size (of a replica), placement (replicas on each node, digit by
            digit), world_size and value.

    Raises:
        BadInput: there are no rows.
    """
    return _fit_linear(rows, ("dnn", "node_type", "batch_size", "most_on_a_node"), rate=False)


def _fit_linear(rows: pl.DataFrame, same: Sequence[str], *, rate: bool) -> LinearRows:
    if rows.is_empty():
        raise BadInput("linear scaling needs a measurement to start from; found no rows")
    value = rate_of_one(_VALUE, _WORKERS) if rate else _VALUE
    known = _derived(rows).group_by(same).agg(value=value.mean()).sort(same)
    return LinearRows(known, tuple(same), rate)


def _derived(rows: pl.DataFrame) -> pl.DataFrame:
    if "placement" not in rows.columns:
        return rows
    digits = pl.col("placement").cast(pl.String).str.split("").cast(pl.List(pl.Int64))
    return rows.with_columns(most_on_a_node=digits.list.max())
