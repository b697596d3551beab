"""What all-reduces and passes of data-parallel training take (section 4.2, Fig. 5 of Srift)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from studies import landed
from studies.rounds import Round


@dataclass(frozen=True)
class DataParallel:
    """Rows of tables allreduce and compute (profiles alone), by the name of what was probed."""

    allreduces: Mapping[str, pl.DataFrame]
    passes: Mapping[str, pl.DataFrame]


def data_parallel(round_: Round, landing: Path) -> DataParallel | None:
    """Return what was probed of a round; None if neither all-reduces nor passes were."""
    reduced = landed.rows(round_, landing, "allreduce", "allreduce")
    passes = landed.rows(round_, landing, "torch_compute", "compute", "profile")
    if not (reduced.width or passes.width):
        return None
    return DataParallel(_named(reduced), _named(passes))


def _named(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {str(name): one for (name,), one in landed.by_name(rows)}
