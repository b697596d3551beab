"""Coarse models of asynchronous SGD for what others measured: rates of several workers, from one.

Nobody published what a step sends, so its part of one worker's step is learned: the one with which
a model errs least on other networks and the same node type. lab/public-files.md says how well.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import polars as pl

from models import cynthia
from models.lin import mva
from warehouse.records import BadInput

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


def fit_rates(form: Form) -> Callable[[pl.DataFrame], QueueRows]:
    """Return what fits steps per second of one and several workers.

    It is given dnn, node_type, servers, world_size and value, and raises BadInput where no network
    was measured with one worker and with several.
    """
    return partial(_fit, form=form)


def _fit(rows: pl.DataFrame, form: Form) -> QueueRows:
    one = pl.col("world_size") == 1
    alone = rows.filter(one).group_by("dnn", *SETUP).agg(alone=pl.col("value").mean())
    several = rows.filter(~one).join(alone, on=["dnn", *SETUP])
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
