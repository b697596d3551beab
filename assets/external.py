"""Public measurements: which of a file's rows fits may see, and which systems forecast the others.

A system joins a file with a function from the rows that may be seen to something that predicts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from models import linear_rows


class FittedRows(Protocol):
    """A model fitted to rows of `raw.external`."""

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value, low and high of the subjects it can speak of."""

    def parameters_json(self) -> str:
        """Return the fitted parameters."""


@dataclass(frozen=True)
class Contender:
    """A system and how it is fitted to a file's rows.

    `fit` gets a row per measurement that may be seen: subject_id, what its subject holds in columns
    of their own, value and repeat. `predict` gets the subjects held out in the same columns,
    without value.
    """

    system: str
    version: str
    fit: Callable[[pl.DataFrame], FittedRows]


@dataclass(frozen=True)
class PublicSet:
    """A file with a mapping, the metric forecast, and the rows of `external` that fits may see."""

    name: str
    metric: str
    unit: str
    seen: pl.Expr
    contenders: tuple[Contender, ...]


def subject(key: str) -> pl.Expr:
    """Return a key of the subject of `external`, as text."""
    return pl.col("subject").str.json_path_match(f"$.{key}")


PUBLIC_SETS = (
    PublicSet(
        "async_ps_cmdare",
        "throughput_steps_per_s",
        "1/s",
        subject("world_size") == "1",
        (Contender("linear", "1", linear_rows.fit_rates),),
    ),
    PublicSet(
        "ddp_step_time_sia",
        "step_time_s",
        "s",
        subject("nodes") == "1",
        (Contender("linear", "1", linear_rows.fit_step_times),),
    ),
)
