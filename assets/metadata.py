"""What an asset shows of itself in the Dagster UI: rows, columns, table, a plot."""

import base64
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
from dagster import MetadataValue, TableColumn, TableSchema
from matplotlib.figure import Figure

from assets.resources import WarehouseResource
from reports.plots import to_png
from studies.rounds import Round
from warehouse.warehouse import Warehouse

OWNERS = ["team:stepcast"]
PLOTS = 6
"""Most plots that the metadata of an asset has: Dagster's log of events keeps each of them."""


def of_table(name: str) -> Mapping[str, Any]:
    """Return metadata of an asset that writes a table of the history."""
    return {"dagster/table_name": name}


def comments(warehouse: WarehouseResource, table: str = "") -> Mapping[str, str]:
    """Return what the history says of columns, by name: a table's own, and where all agree."""
    columns = _columns(warehouse.home)
    alike = columns.group_by("column_name").agg(pl.col("comment").unique())
    own = columns.filter(pl.format("{}.{}", "schema_name", "table_name") == table)
    return {
        **{name: texts[0] for name, texts in alike.rows() if len(texts) == 1},
        **dict(own.select("column_name", "comment").iter_rows()),
    }


@cache
def _columns(home: str) -> pl.DataFrame:
    """Return the columns of a history that have comments; read once."""
    return Warehouse(Path(home)).query("columns").drop_nulls("comment")


def of_rows(frame: pl.DataFrame, described: Mapping[str, str] = {}) -> dict[str, MetadataValue]:
    """Return metadata of rows: their count, and columns with what `comments` says of them."""
    columns = [
        TableColumn(name, str(kind), description=described.get(name))
        for name, kind in frame.schema.items()
    ]
    return {
        "dagster/row_count": MetadataValue.int(frame.height),
        "dagster/column_schema": MetadataValue.table_schema(TableSchema(columns)),
    }


def of_frame(
    frame: pl.DataFrame,
    round_: Round,
    figures: Iterable[Figure] = (),
    described: Mapping[str, str] = {},
) -> dict[str, MetadataValue]:
    """Return metadata of an asset whose rows are `frame`: count, columns, round and plots.

    Of figures the first `PLOTS` are drawn.
    """
    metadata = of_rows(frame, described) | {
        "study": MetadataValue.text(round_.study.name),
        "round": MetadataValue.int(round_.repeat),
        "backend": MetadataValue.text(round_.backend),
    }
    pictures = (base64.b64encode(to_png(figure)).decode() for figure in islice(figures, PLOTS))
    if images := [f"![plot](data:image/png;base64,{picture})" for picture in pictures]:
        metadata["plot"] = MetadataValue.md("\n".join(images))
    return metadata


def errors(judged: pl.DataFrame) -> dict[str, MetadataValue]:
    """Return each system's mean absolute error, percent, and its n: Dagster draws their trends.

    `judged` is as `forecasting.results.by_system` has it.
    """
    figures: dict[str, MetadataValue] = {}
    for row in judged.filter(pl.col("dnn").is_null(), pl.col("n") > 0).sort("system").to_dicts():
        figures[f"MAPE in percent: {row['system']}"] = MetadataValue.float(
            round(row["mean_ape_percent"], 1)
        )
        figures[f"n: {row['system']}"] = MetadataValue.int(row["n"])
    return figures
