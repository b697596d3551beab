"""Heavy, light and CPU operations, and what profiles say of them (sections III and IV-B)."""

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


def classify(rows: pl.DataFrame) -> Classes:
    """Divide the types of measured operations.

    A type is heavy if its mean time over all its operations on the slowest node type is at or above
    `HEAVY_US`, CPU if it has no GPU kernel. The slowest node type is the one with the largest
    mean over types of the ratio to the fastest mean of each type. A type that was not measured
    there is judged by the node type where it took longest.

    Args:
        rows: as `models.ceer.operations.select_computation` returns them.
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
    slowest_us = pl.col("us").filter(pl.col("node_type") == slowest).first()
    decisive = by_type.group_by("type").agg(pl.coalesce(slowest_us, pl.col("us").max()).alias("us"))
    on_host = pl.col("type").is_in(list(cpu_operations()))
    heavy = decisive.filter(pl.col("us") >= HEAVY_US, ~on_host)["type"]
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


def scaling(steps: pl.DataFrame) -> pl.DataFrame:
    """Return by how much an epoch is shorter on k devices than on one (Fig. 6).

    Args:
        steps: `models.ceer.overhead.STEPS`; k devices take k batches in a step.

    Returns:
        dnn, image_size, batch_size, node_type, link_mbps, devices, relative_time (of an epoch, to
        that of one device) and step_s; steps without a profiled one are left out. The paper's
        relative times of Inception v1 are 0.64, 0.53 and 0.46 for 2, 3 and 4.
    """
    same = ["dnn", "image_size", "batch_size", "node_type"]
    mean = steps.group_by(*same, "link_mbps", "devices").agg(pl.col("step_s").mean())
    alone = mean.filter(pl.col("devices") == 1).group_by(same).agg(pl.col("step_s").mean())
    relative = pl.col("step_s") / pl.col("devices") / pl.col("step_s_alone")
    return (
        mean.join(alone, on=same, suffix="_alone")
        .select(*same, "link_mbps", "devices", relative.alias("relative_time"), "step_s")
        .sort(*same, "link_mbps", "devices")
    )
