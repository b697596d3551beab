"""What tests of pipelines share: studies that have run, and a history of Dagster."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from profilers.steady import hostlock
from tests.homes import once
from tests.pipelines.ran import Ran, leave_dead_run, run_study
from tests.synthetic import PaperProbes, write_study


@pytest.fixture(scope="session")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return a study that has run once. A run takes long: tests only look at its home."""

    def make(folder: Path) -> None:
        run_study(folder / "home", write_study(folder), PaperProbes()).keep(folder)

    return Ran.kept(once(tmp_path_factory, "ran", make))


@pytest.fixture(scope="session")
def second_run(first_run: Ran, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, str]:
    """Return its next run, on a busy host, and the run of a dead process that it found there."""

    def make(folder: Path) -> None:
        home = shutil.copytree(first_run.home, folder / "home")
        (folder / "dead").write_text(leave_dead_run(home))
        run_study(home, first_run.study, PaperProbes(idle=0.1)).keep(folder)

    folder = once(tmp_path_factory, "ran-again", make)
    return Ran.kept(folder), (folder / "dead").read_text()


@pytest.fixture
def finished(first_run: Ran, home: Path) -> Ran:
    """Return the first run as if it had been in the home of this test, which may change it."""
    return replace(first_run, home=shutil.copytree(first_run.home, home, dirs_exist_ok=True))


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody measure on this host, whatever tests beside this one do."""
    monkeypatch.setattr(hostlock, "holder", lambda: "")


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """Yield a history of Dagster."""
    with dg.DagsterInstance.ephemeral() as made:
        yield made
