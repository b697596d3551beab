"""Rows of what others timed: taken apart by what has a fit of its own, and put into words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from warehouse.records import Record

Key = tuple[str, ...]
NONE = pl.lit(None, pl.Float64)


def parts(rows: pl.DataFrame, by: Sequence[str]) -> list[tuple[Key, pl.DataFrame]]:
    """Return the rows of each combination of the columns `by`, and the combination."""
    found = rows.sort(by, maintain_order=True).partition_by(by, maintain_order=True, as_dict=True)
    return [(tuple(map(str, key)), part) for key, part in found.items()]


def readable(fitted: Mapping[Key, Record]) -> dict[str, Any]:
    """Return records as JSON takes them, by their key in words."""
    return {" ".join(key): json.loads(one.canonical_json()) for key, one in fitted.items()}


def nothing(subjects: pl.DataFrame) -> pl.DataFrame:
    """Return what is forecast where nothing is."""
    return subjects.select("subject_id", value=NONE, low=NONE, high=NONE).clear()
