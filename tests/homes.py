"""Homes that take long to make are made once for all processes of a test run, and then copied."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from models.gpu_step import scenario_steps
from networks import own_model
from studies.messages import Progress
from tests.models.gpu_step.public import PUBLIC, made_up_steps, public_tables
from tests.networks import preloaded
from tests.reference import REFERENCE
from warehouse import publication, warehouse
from warehouse.landing import land
from warehouse.sets import copy_kept_runs, kept_runs
from warehouse.warehouse import Warehouse

PYTORCH, TENSORFLOW = "variance", "reference_async_small_batch"


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that `make` has filled; tests only look at it, or copy it.

    With pytest-xdist, whoever comes first makes it, and the others wait.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with folder.with_name(f"{name}.made").open("a+") as made:
        fcntl.flock(made, fcntl.LOCK_EX)
        if not os.fstat(made.fileno()).st_size:
            make(folder)
            made.write("made\n")
    return folder


@pytest.fixture(autouse=True, scope="session")
def empty_warehouses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make new warehouses of this process by copying one: all migrations take 1.5 s each time.

    Programs that tests start make theirs themselves, and so does `publication.ensure_warehouse`.
    """
    made = once(
        tmp_path_factory, "empty", lambda folder: publication.ensure_warehouse(folder / "made")
    )

    def copied(main: Path) -> None:
        if main.exists():
            return
        fresh = main.with_name(f".tmp-{os.getpid()}-copied")
        try:
            main.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made / "made", fresh)
            fresh.replace(main)
        except OSError:  # a full disk, no right to write: what then happens is tested
            fresh.unlink(missing_ok=True)
            publication.ensure_warehouse(main)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warehouse, "ensure_warehouse", copied)
        yield


@pytest.fixture(scope="session")
def small_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with the last round of `PYTORCH`, and small_cnn of `TENSORFLOW`."""

    def build(folder: Path) -> None:
        from pipelines.reproduction import reproduce

        chosen = [
            run.run_id
            for run in kept_runs(REFERENCE)
            if (run.study, run.repeat) == (PYTORCH, 10)
            or (run.study == TENSORFLOW and run.config.get("link_mbps") == 200.0)
        ]
        copy_kept_runs(REFERENCE, folder / "runs", chosen)
        (folder / "home").mkdir()
        reproduce(folder / "runs", folder / "home", Progress(), [PYTORCH, TENSORFLOW])

    return once(tmp_path_factory, "small", build) / "home"


@pytest.fixture(scope="session")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with ten equal rounds: links, and steps of two node types."""

    def build(home: Path) -> None:
        run_ids = [
            run.run_id
            for run in kept_runs(REFERENCE)
            if run.study == "variance" and run.probe in ("links", "torch_throughput")
        ]
        copy_kept_runs(REFERENCE, home / "landing", run_ids)
        Warehouse(home).load()

    return once(tmp_path_factory, "repeated", build)


@pytest.fixture(scope="session")
def public_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with a part of the public measurements, and prices of a day; without a fit."""

    def build(home: Path) -> None:
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

    return once(tmp_path_factory, "public", build)


@pytest.fixture
def public_home(public_history: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return this test's home with a copy; steps are made up, which takes no time."""
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)
    return Path(shutil.copytree(public_history, home, dirs_exist_ok=True))


@pytest.fixture(scope="session")
def _preloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    yield from preloaded.served(tmp_path_factory.mktemp("preloaded"))


@pytest.fixture
def quickly_traced(_preloaded: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace models by forks of a process that has imported what they need."""
    monkeypatch.setattr(own_model, "_PROGRAM", preloaded.__file__)
    for name, value in _preloaded.items():
        monkeypatch.setenv(name, value)
