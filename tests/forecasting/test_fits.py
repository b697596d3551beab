"""A fit is loaded where this code made it, of these runs and tables; else systems are fitted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from forecasting import fits
from forecasting.fits import Fit, newest_kept_fit
from forecasting.round_forecasts import fit_round, fits_of_round
from models.async_sgd.systems import ASYNC_SGD
from models.system import System, Tables
from studies.messages import Progress
from studies.rounds import Round
from tests.synthetic import STUDY
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


def kept(round_: Round, warehouse: Warehouse, patch: pytest.MonkeyPatch) -> Fit:
    """Fit the first curve by a version of the code, keep that, and return it."""
    patch.setattr(fits, "_at_hand", {})
    patch.setattr(fits, "code_version", lambda: MADE_BY)
    first, *_ = round_.study.curves
    of_first = replace(round_, study=round_.study.with_curves([first]))
    return fit_round(ASYNC_SGD, of_first, warehouse, Progress())[first]


@pytest.mark.parametrize("version", [MADE_BY, "v2-4-g0123456", f"{MADE_BY}-dirty"])
def test_a_fit_that_is_kept_is_loaded_whatever_else_changed_in_the_code(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    fit = kept(round_, warehouse, monkeypatch)
    monkeypatch.setattr(fits, "code_version", lambda: version)
    first, *_ = round_.study.curves
    of_first = replace(round_, study=round_.study.with_curves([first]))
    loaded = fits_of_round(LOADED, of_first, warehouse)[first].fitted()
    assert loaded.parameters_json() == fit.fitted().parameters_json()
    scenarios = first.scenarios("loopback")
    assert loaded.predict(scenarios).equals(fit.fitted().predict(scenarios))
    assert warehouse.query("fits")["code_version"].to_list() == [MADE_BY]
    with pytest.raises(FittedAgain):  # of the second curve none is kept
        fits_of_round(LOADED, round_, warehouse)


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
    fit = kept(round_, warehouse, monkeypatch)
    group, known = replace(fit.group, system=system), warehouse.query("fits")
    assert newest_kept_fit(group, fit.row_count, round_.host_id, known) is None


def test_fits_to_other_rows_or_by_other_code_are_not_loaded(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = kept(round_, warehouse, monkeypatch)
    group, known = replace(fit.group, system=LOADED), warehouse.query("fits")
    assert newest_kept_fit(group, fit.row_count, round_.host_id, known) is not None
    fewer = replace(group, runs=group.runs[:-1])
    assert newest_kept_fit(fewer, fit.row_count, round_.host_id, known) is None
    assert newest_kept_fit(group, fit.row_count - 1, round_.host_id, known) is None
    monkeypatch.setattr(fits, "code_digest", lambda: "code:other")
    assert newest_kept_fit(group, fit.row_count, round_.host_id, known) is None
