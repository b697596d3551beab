"""What an asset shows of itself in the Dagster UI: rows, columns, table, round, errors, plots."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from dagster import MetadataValue, TableColumn, TableSchema

from studies.rounds import Round

OWNERS = ["team:stepcast"]


def of_table(name: str) -> Mapping[str, Any]:
    """Return metadata of an asset that writes a table of the history."""
    return {"dagster/table_name": name}


def of_rows(frame: pl.DataFrame) -> dict[str, MetadataValue]:
    """Return metadata of rows: their count, and columns."""
    columns = [TableColumn(name, str(kind)) for name, kind in frame.schema.items()]
    return {
        "dagster/row_count": MetadataValue.int(frame.height),
        "dagster/column_schema": MetadataValue.table_schema(TableSchema(columns)),
    }


def of_frame(frame: pl.DataFrame, round_: Round) -> dict[str, MetadataValue]:
    """Return metadata of an asset whose rows are `frame`: count, columns and round."""
    return of_rows(frame) | {
        "study": MetadataValue.text(round_.study.name),
        "round": MetadataValue.int(round_.repeat),
        "backend": MetadataValue.text(round_.backend),
    }


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
