"""A home with ten equal rounds that were measured."""

from pathlib import Path

import pytest

from tests.once import once
from tests.reference import REFERENCE
from warehouse.sets import copy_kept_runs, kept_runs
from warehouse.warehouse import Warehouse


@pytest.fixture(scope="session")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with ten equal rounds: links, and steps of two node types."""
    return once(tmp_path_factory, "repeated", _fill)


def _fill(home: Path) -> None:
    run_ids = [
        run.run_id
        for run in kept_runs(REFERENCE)
        if run.study == "variance" and run.probe in ("links", "torch_throughput")
    ]
    copy_kept_runs(REFERENCE, home / "landing", run_ids)
    Warehouse(home).load()
