"""A home with ten equal rounds that were measured."""

from pathlib import Path

import pytest

from tests.reference import REFERENCE
from warehouse.copying import copy_runs
from warehouse.landing import landed_runs
from warehouse.warehouse import Warehouse


@pytest.fixture(scope="session")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with ten equal rounds: links, and steps of two node types."""
    home = tmp_path_factory.mktemp("repeated")
    ours = [
        run.run_id
        for run in landed_runs(REFERENCE)
        if run.study == "variance" and run.probe in ("links", "torch_throughput")
    ]
    copy_runs(REFERENCE, home / "landing", ours)
    Warehouse(home).load()
    return home
