"""Heavy, light and CPU operations (sections III-A and IV-B)."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import TypeAdapter

from warehouse.documents import read_document
from warehouse.records import BadInput, Record

OperationClass = Literal["heavy", "light", "cpu"]
HEAVY_US = 500.0
"""The paper's threshold: mean time on its slowest node type, P2."""


class Classes(Record):
    """Which types are heavy, which are CPU operations; any other is light.

    `slowest` is the node type whose times decided.
    """

    slowest: str
    heavy: tuple[str, ...]
    cpu: tuple[str, ...]

    def of(self, operation_type: str) -> OperationClass:
        """Return the class of a canonical type."""
        if operation_type in self.heavy:
            return "heavy"
        on_host = operation_type in self.cpu or operation_type in cpu_operations()
        return "cpu" if on_host else "light"


@cache
def cpu_operations() -> frozenset[str]:
    """Return the types that lack a GPU kernel (cpu_operations.yaml says how they were found)."""
    listed = read_document(Path(__file__).parent / "cpu_operations.yaml", "operations")
    return TypeAdapter(frozenset[str]).validate_python(listed)


def classify(rows: pl.DataFrame, threshold_us: float = HEAVY_US) -> Classes:
    """Divide the types of measured operations.

    A type is heavy if its mean time over all its operations on the slowest node type is at or above
    the threshold, CPU if it has no GPU kernel. The slowest node type is the one with the largest
    mean over types of the ratio to the fastest mean of each type. A type that was not measured
    there is judged by the node type where it took longest.

    Args:
        rows: as `models.ceer.observed.computing` returns them.
        threshold_us: mean time from which a type is heavy, microseconds.
    """
    mean_us = (pl.col("count") * pl.col("mean_us")).sum() / pl.col("count").sum()
    by_type = rows.group_by("type", "node_type").agg(mean_us.alias("us"))
    fastest_us = pl.col("us").min().over("type").clip(1e-3)
    slowness = (
        by_type.with_columns((pl.col("us") / fastest_us).alias("ratio"))
        .group_by("node_type")
        .agg(pl.col("ratio").mean())
        .sort(["ratio", "node_type"], descending=[True, False])
    )
    slowest = str(slowness["node_type"][0])
    there = pl.col("us").filter(pl.col("node_type") == slowest).first()
    decisive = by_type.group_by("type").agg(pl.coalesce(there, pl.col("us").max()).alias("us"))
    on_host = pl.col("type").is_in(list(cpu_operations()))
    heavy = decisive.filter(pl.col("us") >= threshold_us, ~on_host)["type"]
    cpu = decisive.filter(on_host)["type"]
    return Classes(slowest=slowest, heavy=tuple(sorted(heavy)), cpu=tuple(sorted(cpu)))


def check_sizes(rows: pl.DataFrame, classes: Classes, whose: str) -> None:
    """Refuse heavy operations of which nobody knows what they work on.

    Args:
        rows: type (canonical), inputs and input_bytes.
        classes: of the types.
        whose: begins the message.

    Raises:
        BadInput: a heavy operation has neither inputs nor input_bytes.
    """
    unknown = pl.col("inputs").is_null() & pl.col("input_bytes").is_null()
    types = rows.filter(unknown, pl.col("type").is_in(classes.heavy))["type"]
    if len(types):
        raise BadInput(
            f"{whose}: expected shapes or input_bytes of every heavy operation, found none of "
            f"{len(types)} ({', '.join(types.unique().sort()[:3])}); profile with table "
            "operation_shape, or extract the graph"
        )


def shares(rows: pl.DataFrame, classes: Classes) -> pl.DataFrame:
    """Return dnn, node_type, class and share: of all time of operations, which part is each class.

    The paper reports 47 to 94 % of training time for heavy and less than 7 % for light operations.
    """
    names: Mapping[str, str] = {one: classes.of(one) for one in rows["type"].unique()}
    spent = (
        rows.with_columns(pl.col("type").replace_strict(names).alias("class"))
        .group_by("dnn", "node_type", "class")
        .agg((pl.col("count") * pl.col("mean_us")).sum().alias("us"))
    )
    total_us = pl.col("us").sum().over("dnn", "node_type")
    return spent.select("dnn", "node_type", "class", (pl.col("us") / total_us).alias("share")).sort(
        "dnn", "node_type", "class"
    )
