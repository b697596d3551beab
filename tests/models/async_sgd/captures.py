"""Tables stream and http2_frame of a small captured run, in the shape that probes land."""

from collections.abc import Sequence

import polars as pl

from profilers.readers.connections import FRAMES, STREAMS
from tests.models.async_sgd.frames import EPOCH_US, RUN_ID

STREAM_SCHEMA = {"run_id": pl.String, **STREAMS}
FRAME_SCHEMA = {"run_id": pl.String, **FRAMES}


def streams(*rows: tuple[int | None, int | None, int, int]) -> pl.DataFrame:
    """Return table stream of (step, operation, first_us, last_us), times since the step's start."""
    return pl.DataFrame(
        [
            (RUN_ID, step, "downlink", 0, 0, 2 * i + 1, operation, 1, EPOCH_US + a, EPOCH_US + b, 1)
            for i, (step, operation, a, b) in enumerate(rows)
        ],
        schema=STREAM_SCHEMA,
        orient="row",
    )


def served(
    *rows: tuple[int, int, int, int, int], segments: Sequence[int] | None = None
) -> pl.DataFrame:
    """Return downlink transfers of one step: (stream, size_bytes, start_us, first_us, last_us)."""
    return pl.DataFrame(
        {
            "step": pl.Series([0] * len(rows), dtype=pl.Int32),
            "operation": pl.Series([row[0] for row in rows], dtype=pl.Int32),
            "direction": ["downlink"] * len(rows),
            "server": pl.Series([0] * len(rows), dtype=pl.Int16),
            "stream": pl.Series([row[0] for row in rows], dtype=pl.Int32),
            "role": ["worker"] * len(rows),
            "size_bytes": [row[1] for row in rows],
            "segments": pl.Series(segments or [1] * len(rows), dtype=pl.Int32),
            "start_us": [row[2] for row in rows],
            "end_us": [row[4] for row in rows],
            "first_us": [row[3] for row in rows],
            "last_us": [row[4] for row in rows],
        }
    )


def frames(*rows: tuple[str, str, int, int, int, int | None]) -> pl.DataFrame:
    """Return downlink frames: (sender, type, stream, time_us, length_bytes, value)."""
    return pl.DataFrame(
        [(RUN_ID, 0, 0, "downlink", *row) for row in rows], schema=FRAME_SCHEMA, orient="row"
    )
