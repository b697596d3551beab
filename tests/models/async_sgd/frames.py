"""Raw tables of a small traced run, as probes land them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

RUN_ID = "profile-1"


@dataclass(frozen=True)
class Tables:
    """The four tables that describe a traced run."""

    operations: pl.DataFrame
    edges: pl.DataFrame
    timings: pl.DataFrame
    steps: pl.DataFrame

    def without_timing(self, step: int, operation: int) -> "Tables":
        """Return these tables as if the tracer had lost one record."""
        lost = (pl.col("step") == step) & (pl.col("operation") == operation)
        return replace(self, timings=self.timings.filter(~lost))

    def with_timing(self, step: int, operation: int, start_us: int, duration_us: int) -> "Tables":
        """Return these tables with another record."""
        row = pl.DataFrame(
            [(RUN_ID, step, operation, start_us, duration_us)],
            schema=self.timings.schema,
            orient="row",
        )
        return replace(self, timings=pl.concat([self.timings, row]))


def tables(
    operations: Sequence[tuple[str, int | None]],
    edges: Sequence[tuple[int, int]],
    steps: Sequence[Mapping[int, tuple[int, int]]],
) -> Tables:
    """Return tables of operations (resource, bytes) and of (start_us, duration_us) per step."""
    return Tables(
        operations=pl.DataFrame(
            [
                (
                    RUN_ID,
                    i,
                    f"{resource}{i}",
                    "Any",
                    resource,
                    None if resource == "worker" else 0,
                    b,
                )
                for i, (resource, b) in enumerate(operations)
            ],
            schema={
                "run_id": pl.String,
                "operation": pl.Int32,
                "name": pl.String,
                "type": pl.String,
                "resource": pl.String,
                "server": pl.Int16,
                "size_bytes": pl.Int64,
            },
            orient="row",
        ),
        edges=pl.DataFrame(
            [(RUN_ID, *edge) for edge in edges],
            schema={"run_id": pl.String, "source": pl.Int32, "target": pl.Int32},
            orient="row",
        ),
        timings=pl.DataFrame(
            [
                (RUN_ID, step, operation, *times)
                for step, timed in enumerate(steps)
                for operation, times in timed.items()
            ],
            schema={
                "run_id": pl.String,
                "step": pl.Int32,
                "operation": pl.Int32,
                "start_us": pl.Int64,
                "duration_us": pl.Int64,
            },
            orient="row",
        ),
        steps=pl.DataFrame(
            [(RUN_ID, 0, step, True) for step in range(len(steps))] + [(RUN_ID, 0, 0, False)],
            schema={
                "run_id": pl.String,
                "worker": pl.Int16,
                "step": pl.Int32,
                "traced": pl.Boolean,
            },
            orient="row",
        ),
    )


READ, SEND, RECEIVE, COMPUTE, SEND_BACK, UPLOAD, APPLY = range(7)

CHAIN_STEP = {
    READ: (1_000, 2_000),
    RECEIVE: (3_000, 250_000),
    COMPUTE: (260_000, 300_000),
    UPLOAD: (560_000, 130_000),
    APPLY: (690_000, 10_000),
}
"""TensorFlow records neither of the two sends."""


def chain(steps: int = 3) -> Tables:
    """Return a run of equal steps: read, send, receive 20 kB, compute, send 10 kB back, apply."""
    return tables(
        [
            ("ps", None),
            ("ps", None),
            ("downlink", 20_000),
            ("worker", None),
            ("worker", None),
            ("uplink", 10_000),
            ("ps", None),
        ],
        [(i, i + 1) for i in range(6)],
        [CHAIN_STEP] * steps,
    )
