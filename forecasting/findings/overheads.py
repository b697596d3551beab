"""What receiving a tensor adds to it (section 3.2.1, Fig. 10 of the ICPE'20 paper)."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from forecasting.captured import CapturedProfile, overhead_lines, overhead_rows
from models.async_sgd.overhead import Overhead


@dataclass(frozen=True)
class Received:
    """The line of a receiving role and node type, and what it was fitted to.

    `rows` have size_bytes and overhead_s, one for each transfer.
    """

    line: Overhead
    rows: pl.DataFrame


def overheads(profiles: Sequence[CapturedProfile]) -> tuple[Received, ...]:
    """Return the line of each receiving role and node type of captured profiles."""
    rows = overhead_rows(profiles)
    return tuple(Received(line, rows[key]) for key, line in overhead_lines(profiles).items())
