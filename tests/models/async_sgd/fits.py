"""The model fitted to the small traced runs of `tests.models.async_sgd.frames`."""

from models.async_sgd.predictor import AsyncSGD, Settings, fit
from tests.models.async_sgd.frames import Tables
from tests.models.runs import raw_tables

LINK_BPS = 100e3
QUICK = Settings(warm_up_steps=10, simulated_operations=20_000, seeds=3)


def fitted(made: Tables, client_gap_s: float = 0.08) -> AsyncSGD:
    """Fit to a run profiled on links of 100 kB/s."""
    return fit(raw_tables(made, {"client_gap_s": [client_gap_s]}), QUICK)
