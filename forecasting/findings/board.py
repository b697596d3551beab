"""All systems of a study on what all of them forecast, and how much each covers."""

import polars as pl

from studies.rounds import Round
from warehouse.warehouse import Warehouse


def board(round_: Round, warehouse: Warehouse) -> pl.DataFrame:
    """Return rows of query `board` about the study of a round, on its backend; of all rounds."""
    found = warehouse.query("board", study=round_.study.name)
    return found.filter(backend=round_.backend)
