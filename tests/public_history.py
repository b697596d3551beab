"""Homes with a part of the public measurements, and with prices of a day."""

from pathlib import Path
from shutil import copytree

import pytest

from models.gpu_step import scenario_steps
from tests.models.gpu_step.public import PUBLIC, made_up_steps, public_tables
from tests.once import once
from warehouse.landing import land
from warehouse.sets import copy_kept_runs, kept_runs
from warehouse.warehouse import Warehouse


def load_public(home: Path) -> None:
    """Load a part of the public measurements, and prices of a day."""
    tables = public_tables()
    for name in sorted({file.parts[-3] for file in PUBLIC.glob("*/*/run.parquet")}):
        for run in kept_runs(PUBLIC / name):
            of_run = {
                table: tables[table].filter(run_id=run.run_id).drop("run_id")
                for table in ("source", "external")
            }
            if of_run["external"].height:
                land(home / "landing", run, None, of_run)
    prices = PUBLIC / "aws_on_demand"
    copy_kept_runs(prices, home / "landing", [run.run_id for run in kept_runs(prices)])
    Warehouse(home).load()


@pytest.fixture(scope="session")
def public_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with them, and no fit. Tests only copy it."""
    return once(tmp_path_factory, "public", lambda folder: load_public(folder / "home")) / "home"


@pytest.fixture
def public_home(public_history: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this test's home with a copy; steps are made up, which takes no time."""
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)
    return Path(copytree(public_history, home, dirs_exist_ok=True))
