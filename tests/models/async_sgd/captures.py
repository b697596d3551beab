"""Tables stream and http2_frame of a small captured run, in the shape that probes land."""

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
