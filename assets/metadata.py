"""What an asset shows of itself in the Dagster UI: rows, columns, a plot."""

import base64
from collections.abc import Sequence

import polars as pl
from dagster import MetadataValue, TableColumn, TableSchema
from matplotlib.figure import Figure

from reports.plots import to_png
from studies.rounds import Round

OWNERS = ["team:stepcast"]


def of_frame(
    frame: pl.DataFrame, round_: Round, figures: Sequence[Figure] = ()
) -> dict[str, MetadataValue]:
    """Return metadata of an asset whose rows are `frame`: count, columns, round and plots."""
    columns = [TableColumn(name, str(kind)) for name, kind in frame.schema.items()]
    metadata: dict[str, MetadataValue] = {
        "dagster/row_count": MetadataValue.int(frame.height),
        "dagster/column_schema": MetadataValue.table_schema(TableSchema(columns)),
        "study": MetadataValue.text(round_.study.name),
        "round": MetadataValue.int(round_.repeat),
        "backend": MetadataValue.text(round_.backend),
    }
    if figures:
        pictures = (base64.b64encode(to_png(figure)).decode() for figure in figures)
        images = (f"![plot](data:image/png;base64,{picture})" for picture in pictures)
        metadata["plot"] = MetadataValue.md("\n".join(images))
    return metadata
