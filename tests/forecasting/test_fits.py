"""A fit is loaded where this code made it, of these runs and tables; else systems are fitted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import polars as pl
import pytest

from forecasting import async_sgd, fits
from forecasting.async_sgd import FittedModels
from forecasting.fits import Fit, fit_or_load, landed_tables
from forecasting.round_forecasts import fit_round
from models.async_sgd.systems import ASYNC_SGD
from models.system import System, Tables
from studies.messages import Progress
from studies.rounds import Round
from tests.synthetic import STUDY
from warehouse.records import Run
from warehouse.warehouse import Warehouse

MADE_BY = "v2-3-gabcdef"


class FittedAgain(Exception):
    """Raised by a system that should have been loaded."""


def refuse(_tables: Tables) -> NoReturn:
    raise FittedAgain


LOADED = replace(ASYNC_SGD, fit=refuse)
"""A system that can be loaded only."""


@pytest.fixture
def warehouse(landed_round: Callable[[str], Round], home: Path) -> Warehouse:
    """Return a history of a round."""
    landed_round(STUDY)
    history = Warehouse(home)
    history.load()
    return history


@pytest.fixture
def round_(landed_once: Callable[[str], tuple[Round, Path]]) -> Round:
    return landed_once(STUDY)[0]


def by(version: str, patch: pytest.MonkeyPatch) -> None:
    """Let this code have a version."""
    patch.setattr(fits, "code_version", lambda: version)
    patch.setattr(fits, "code_version", lambda: version)


def kept(round_: Round, warehouse: Warehouse) -> tuple[Fit, list[Run], dict[str, pl.DataFrame]]:
    """Fit the first curve, keep that, and return it with its runs and their landed rows."""
    first, *_ = round_.study.curves
    of_first = replace(round_, study=round_.study.with_curves([first]))
    fit = fit_round(ASYNC_SGD, of_first, warehouse, Progress())[first]
    runs = [run for run in round_.runs if run.run_id in fit.group.run_ids]
    return fit, runs, landed_tables(ASYNC_SGD, runs, warehouse.landing)


def test_a_fit_that_is_kept_is_loaded(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    by(MADE_BY, monkeypatch)
    fit, runs, tables = kept(round_, warehouse)
    run_ids = [run.run_id for run in reversed(runs)]
    loaded = fit_or_load(LOADED, run_ids, tables, warehouse)
    assert loaded.parameters_json() == fit.fitted().parameters_json()
    scenarios = round_.study.curves[0].scenarios("loopback")
    assert loaded.predict(scenarios).equals(fit.fitted().predict(scenarios))


@pytest.mark.parametrize("version", ["v2-4-g0123456", f"{MADE_BY}-dirty"])
def test_an_unrelated_change_of_the_code_fits_nothing_anew(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    by(MADE_BY, monkeypatch)
    fit, runs, tables = kept(round_, warehouse)
    by(version, monkeypatch)
    loaded = fit_or_load(LOADED, [run.run_id for run in runs], tables, warehouse)
    assert loaded.parameters_json() == fit.fitted().parameters_json()
    assert warehouse.query("fits")["code_version"].to_list() == [MADE_BY]


def test_what_other_code_of_the_system_fitted_is_not_loaded(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, runs, tables = kept(round_, warehouse)
    monkeypatch.setattr("forecasting.fits.code_digest", lambda system: "code:other")
    with pytest.raises(FittedAgain):
        fit_or_load(LOADED, [run.run_id for run in runs], tables, warehouse)


@pytest.mark.parametrize(
    "system",
    [
        replace(LOADED, version="0"),
        replace(LOADED, name="async_sgd_one_server"),
        replace(LOADED, tables=LOADED.tables[:-1]),
    ],
    ids=["another version", "another system", "other tables"],
)
def test_fits_of_other_systems_are_not_loaded(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, system: System
) -> None:
    by(MADE_BY, monkeypatch)
    _, runs, tables = kept(round_, warehouse)
    with pytest.raises(FittedAgain):
        fit_or_load(system, [run.run_id for run in runs], tables, warehouse)


def test_fits_to_other_rows_are_not_loaded(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    by(MADE_BY, monkeypatch)
    _, runs, tables = kept(round_, warehouse)
    run_ids = [run.run_id for run in runs]
    with pytest.raises(FittedAgain):
        fit_or_load(LOADED, run_ids[:-1], tables, warehouse)
    with pytest.raises(FittedAgain):
        fit_or_load(LOADED, run_ids, {**tables, "link": tables["link"].head(1)}, warehouse)
    with pytest.raises(FittedAgain):
        fit_or_load(LOADED, run_ids, tables)


def test_the_models_of_a_round_are_loaded(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    by(MADE_BY, monkeypatch)
    kept(round_, warehouse)
    monkeypatch.setattr(async_sgd, "ASYNC_SGD", LOADED)
    models = FittedModels(round_, warehouse.landing, warehouse)
    first, second = models
    assert models[first].parameters.scenario == first.scenario
    with pytest.raises(FittedAgain):
        models[second]
