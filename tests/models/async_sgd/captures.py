"""Tables stream and http2_frame of a small captured run, in the shape that probes land."""

from collections.abc import Sequence

import polars as pl

from tests.made_run import raw_table
from tests.models.async_sgd.frames import EPOCH_US, RUN_ID

FRAME = "run_id worker server direction sender type stream time_us length_bytes value"


def streams(*rows: tuple[int | None, int | None, int, int]) -> pl.DataFrame:
    """Return table stream of (step, operation, first_us, last_us), times since the step's start."""
    return raw_table(
        "stream",
        "run_id step direction worker server stream operation size_bytes first_us last_us segments",
        [
            (RUN_ID, step, "downlink", 0, 0, 2 * i + 1, operation, 1, EPOCH_US + a, EPOCH_US + b, 1)
            for i, (step, operation, a, b) in enumerate(rows)
        ],
    )


def served(
    *rows: tuple[int, int, int, int, int], segments: Sequence[int] | None = None
) -> pl.DataFrame:
    """Return downlink transfers of one step: (stream, size_bytes, start_us, first_us, last_us)."""
    made = raw_table(
        "stream",
        "step operation direction server stream size_bytes first_us last_us segments",
        [
            (0, stream, "downlink", 0, stream, size_bytes, first_us, last_us, count)
            for (stream, size_bytes, _, first_us, last_us), count in zip(
                rows, segments or [1] * len(rows), strict=True
            )
        ],
    )
    start_us = pl.Series([row[2] for row in rows], dtype=pl.Int64)
    return made.with_columns(role=pl.lit("worker"), start_us=start_us, end_us=pl.col("last_us"))


def frames(*rows: tuple[str, str, int, int, int, int | None]) -> pl.DataFrame:
    """Return downlink frames: (sender, type, stream, time_us, length_bytes, value)."""
    return raw_table("http2_frame", FRAME, [(RUN_ID, 0, 0, "downlink", *row) for row in rows])
