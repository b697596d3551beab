"""The model of asynchronous SGD fitted to the landed profiles of a round, without a database."""

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from assets import landed
from assets.rounds import Part, Round, profile_parts
from assets.systems import ARGUMENTS, ASYNC_SGD
from models.async_sgd.predictor import AsyncSGD
from warehouse.records import Run


def fitted_models(round_: Round, landing: Path) -> dict[Part, AsyncSGD]:
    """Return a model of each profile of a round, fitted to what its forecasts were fitted to.

    Where jobs share a profile, the model knows the links of all of them.
    """
    return {part: _fitted(_seen(part, round_), landing) for part in round_.runs_of("tf_trace")}


def _seen(profile: Part, round_: Round) -> Iterable[Run]:
    study, backend = round_.study, round_.backend
    parts = (
        part
        for asked in study.jobs
        for job in asked.as_profiled()
        if job.profiled(backend) == profile.scenario
        for part in profile_parts(job, study, backend)
        if part.probe in ASYNC_SGD.probes
    )
    found = (round_.run_of(part) for part in dict.fromkeys(parts))
    return [run for run in found if run is not None]


def _fitted(runs: Iterable[Run], landing: Path) -> AsyncSGD:
    landings = [landed.tables(landing, run) for run in runs]
    seen: dict[str, pl.DataFrame] = {}
    for name in ASYNC_SGD.tables:
        tables = [one[name] for one in landings if name in one]
        seen[ARGUMENTS[name]] = pl.concat(tables) if tables else landed.no_rows(name)
    model = ASYNC_SGD.fit(**seen)
    assert isinstance(model, AsyncSGD)
    return model
