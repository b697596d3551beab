"""What an asset shows of itself in the Dagster UI: rows, columns, table, round, errors, plots."""

import base64
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import dagster as dg
import polars as pl
from matplotlib.figure import Figure

from reports.plots import to_png
from studies.rounds import Round

OWNERS = ["team:stepcast"]
PLOTS = 6
"""Most plots that the metadata of an asset has: Dagster's log of events keeps each of them."""


def of_table(name: str) -> Mapping[str, Any]:
    """Return metadata of an asset that writes a table of the history."""
    return {"dagster/table_name": name}


def of_rows(frame: pl.DataFrame) -> dict[str, dg.MetadataValue]:
    """Return metadata of rows: their count, and columns."""
    columns = [dg.TableColumn(name, str(kind)) for name, kind in frame.schema.items()]
    return {
        "dagster/row_count": dg.MetadataValue.int(frame.height),
        "dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(columns)),
    }


def of_frame(frame: pl.DataFrame, round_: Round) -> dict[str, dg.MetadataValue]:
    """Return metadata of an asset whose rows are `frame`: count, columns and round."""
    return of_rows(frame) | {
        "study": dg.MetadataValue.text(round_.study.name),
        "round": dg.MetadataValue.int(round_.repeat),
        "backend": dg.MetadataValue.text(round_.backend),
    }


def of_figures(figures: Iterable[Figure]) -> dict[str, dg.MetadataValue]:
    """Return the first `PLOTS` of some figures as metadata, nothing where there are none."""
    pictures = [base64.b64encode(to_png(each)).decode() for each in islice(figures, PLOTS)]
    images = [f"![plot](data:image/png;base64,{picture})" for picture in pictures]
    return {"plot": dg.MetadataValue.md("\n".join(images))} if images else {}


def errors(judged: pl.DataFrame) -> dict[str, dg.MetadataValue]:
    """Return each system's mean absolute error, percent, and its n: Dagster draws their trends.

    `judged` is as `forecasting.results.by_system` has it.
    """
    figures: dict[str, dg.MetadataValue] = {}
    for row in judged.filter(pl.col("dnn").is_null(), pl.col("n") > 0).sort("system").to_dicts():
        figures[f"MAPE in percent: {row['system']}"] = dg.MetadataValue.float(
            round(row["mean_ape_percent"], 1)
        )
        figures[f"n: {row['system']}"] = dg.MetadataValue.int(row["n"])
    return figures
