"""Raw tables of a small traced run, as probes land them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from models.async_sgd.trace import Profile, read_profile
from tests.made_run import raw_table

RUN_ID = "profile-1"
EPOCH_US = 1_700_000_000_000_000
_TIMING = "run_id step operation start_us duration_us"
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
        row = raw_table("timing", _TIMING, [(RUN_ID, step, operation, start_us, duration_us)])
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
        operations=raw_table(
            "operation",
            "run_id operation name type resource server size_bytes",
            [
                (RUN_ID, i, f"{at}{i}", "Any", at, None if at == "worker" else 0, size_bytes)
                for i, (at, size_bytes) in enumerate(operations)
            ],
        ),
        edges=raw_table("edge", "run_id source target", [(RUN_ID, *edge) for edge in edges]),
        timings=raw_table(
            "timing",
            _TIMING,
            [
                (RUN_ID, step, operation, *times)
                for step, timed in enumerate(steps)
                for operation, times in timed.items()
            ],
        ),
        steps=raw_table(
            "step",
            "run_id worker step traced start_us end_us",
            [
                (RUN_ID, 0, step, traced, EPOCH_US, EPOCH_US + lasted_us)
                for traced, all_us in ((True, traced_us), (False, untraced_us))
                for step, lasted_us in enumerate(all_us)
            ],
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
