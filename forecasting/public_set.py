"""A study of a public file: who forecasts which of its rows, having seen which."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl


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
    without value. `what` and `source` register a name that came with no schema.
    """

    system: str
    version: str
    fit: Callable[[pl.DataFrame], FittedRows]
    what: str = ""
    source: str = ""


@dataclass(frozen=True)
class PublicSet:
    """A study of a public file: the metric forecast, and which rows of `external` fits may see.

    Only `rows` take part. `mapping`, of `mappings/subjects`, stands in for the file's own.
    """

    name: str
    file: str
    metric: str
    unit: str
    seen: pl.Expr
    contenders: tuple[Contender, ...]
    rows: pl.Expr = field(default_factory=lambda: pl.lit(value=True))
    mapping: str | None = None


def subject(key: str) -> pl.Expr:
    """Return a key of the subject of `external`, as text."""
    return pl.col("subject").str.json_path_match(f"$.{key}")
