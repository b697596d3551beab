"""The model fitted to the small traced runs of `tests.models.async_sgd.frames`."""

import polars as pl

from models.async_sgd.predictor import AsyncSGD, Settings, fit
from tests.models.async_sgd.frames import Tables
from tests.models.runs import links, run_tables, samples

LINK_BPS = 100e3
QUICK = Settings(warm_up_steps=10, simulated_operations=20_000, seeds=3)


def fitted(
    made: Tables, streams: pl.DataFrame | None = None, client_gap_s: float = 0.08
) -> AsyncSGD:
    """Fit to a run profiled on links of 100 kB/s, and of its packets if they are given."""
    runs, scenarios = run_tables()
    return fit(
        runs=runs,
        scenarios=scenarios,
        operations=made.operations,
        edges=made.edges,
        timings=made.timings,
        steps=made.steps,
        samples=samples({"client_gap_s": [client_gap_s]}),
        links=links([LINK_BPS], [LINK_BPS]),
        streams=streams,
        settings=QUICK,
    )
