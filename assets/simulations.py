"""The model of asynchronous SGD fitted to the landed profiles of a round, without a database."""

from pathlib import Path

import polars as pl

from assets import landed
from assets.rounds import Part, Round
from assets.systems import ARGUMENTS, ASYNC_SGD
from models.async_sgd.predictor import AsyncSGD
from warehouse.records import Run


def fitted_models(round_: Round, landing: Path) -> dict[Part, AsyncSGD]:
    """Return a model of each profile of a round, fitted to what its forecasts were fitted to."""
    links = list(round_.runs_of("links").values())
    profiles = round_.runs_of("tf_trace").items()
    return {part: _fitted([run, *links], landing) for part, run in profiles}


def _fitted(runs: list[Run], landing: Path) -> AsyncSGD:
    landings = [landed.tables(landing, run) for run in runs]
    seen = {
        ARGUMENTS[name]: pl.concat([tables[name] for tables in landings if name in tables])
        for name in ASYNC_SGD.tables
    }
    model = ASYNC_SGD.fit(**seen)
    assert isinstance(model, AsyncSGD)
    return model
