"""A captured job of two tensors each way, whose parsing is a line of their sizes, in closed form.

Links carry 100 kB/s. A and B (20 and 40 kB) are sent from 1 to 201 and 601 ms, C and D (10 and
30 kB) from 851 to 951 and 1,251 ms. Workers parse for 10 ms and 1 ms a kB, the server for 5 ms
and 2 ms a kB.
"""

from typing import Any

import polars as pl

from tests.made_run import raw_table
from tests.models.async_sgd.captures import FRAME, streams
from tests.models.async_sgd.frames import EPOCH_US, RUN_ID, tables
from tests.models.runs import links, run_tables, samples

READ, A, B, COMPUTE, C, D, APPLY = range(7)
STEP = {
    READ: (0, 1_000),
    A: (1_000, 230_000),
    B: (1_000, 650_000),
    COMPUTE: (651_000, 200_000),
    C: (851_000, 125_000),
    D: (851_000, 465_000),
    APPLY: (1_316_000, 4_000),
}
SENT = {A: (1_000, 201_000), B: (201_000, 601_000), C: (851_000, 951_000), D: (951_000, 1_251_000)}
EDGES = (
    *((READ, A), (READ, B), (A, COMPUTE), (B, COMPUTE)),
    *((COMPUTE, C), (COMPUTE, D), (C, APPLY), (D, APPLY)),
)
WINDOW_BYTES = 64_000


def raw_tables(window_bytes: int = WINDOW_BYTES, steps: int = 3) -> dict[str, Any]:
    """Return the raw tables of the profile of one worker, by name."""
    made = tables(
        [
            ("ps", None),
            ("downlink", 20_000),
            ("downlink", 40_000),
            ("worker", None),
            ("uplink", 10_000),
            ("uplink", 30_000),
            ("ps", None),
        ],
        EDGES,
        [STEP] * steps,
    )
    runs, scenarios = run_tables()
    packets = [
        (step, operation, first, last)
        for step in range(steps)
        for operation, (first, last) in SENT.items()
    ]
    announced = [
        (RUN_ID, 0, 0, direction, sender, "SETTINGS", 0, EPOCH_US - before, 6, window)
        for direction, sender in (("downlink", "worker"), ("uplink", "server"))
        for before, window in ((9, 1), (5, window_bytes))
    ]
    return {
        "run": runs,
        "scenario": scenarios,
        **made.raw,
        "sample": samples({"client_gap_s": [0.05], "step_time_s": [1.37]}),
        "link": pl.concat([links([100e3], [100e3]), links([1e6], [1e6], run_id="links-2")]),
        "stream": streams(*packets),
        "http2_frame": raw_table("http2_frame", FRAME, announced),
    }
