"""Raw tables of a small traced run, as probes land them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from models.async_sgd.trace import Profile, read_profile

RUN_ID = "profile-1"
EPOCH_US = 1_700_000_000_000_000
UNTRACED_US = 1_000_000
"""An untraced step so long that tracing seems to add nothing to the small steps here."""


@dataclass(frozen=True)
class Tables:
    """The four tables that describe a traced run."""

    operations: pl.DataFrame
    edges: pl.DataFrame
    timings: pl.DataFrame
    steps: pl.DataFrame

    @property
    def raw(self) -> dict[str, pl.DataFrame]:
        """The same by the names of raw tables."""
        return dict(zip(("operation", "edge", "timing", "step"), vars(self).values(), strict=True))

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
    untraced_us: Sequence[int] = (UNTRACED_US,),
) -> Tables:
    """Return tables of operations (resource, bytes), (start_us, duration_us) per step, and steps.

    The client takes 5 s longer for a traced step, to receive the records, than its operations do.
    """
    traced_us = [max(map(sum, timed.values()), default=0) + 5_000_000 for timed in steps]
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
            [
                (RUN_ID, 0, step, traced, EPOCH_US, EPOCH_US + lasted_us)
                for traced, all_us in ((True, traced_us), (False, untraced_us))
                for step, lasted_us in enumerate(all_us)
            ],
            schema={
                "run_id": pl.String,
                "worker": pl.Int16,
                "step": pl.Int32,
                "traced": pl.Boolean,
                "start_us": pl.Int64,
                "end_us": pl.Int64,
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


def chain(steps: int = 3, untraced_us: Sequence[int] = (UNTRACED_US,)) -> Tables:
    """Return a run of equal steps: read, send, receive 20 kB, compute, send 10 kB back, apply.

    On links of 100 kB/s the transfers take 200 and 100 ms: parsing takes 50 and 30 ms more.
    """
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
        untraced_us,
    )


def profile(
    made: Tables,
    *,
    streams: pl.DataFrame | None = None,
    link_Bps: float = 100e3,
    inter_op_threads: int = 1,
    cores: float = 1.0,
) -> Profile:
    """Read the tables of a run on links of this speed."""
    return read_profile(
        made.raw,
        streams,
        downlink_Bps=link_Bps,
        uplink_Bps=link_Bps,
        inter_op_threads=inter_op_threads,
        cores=cores,
    )
