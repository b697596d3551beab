"""`stepcast load`: landed runs come into the warehouse, broken ones are set aside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forecasting.chosen import asking_of
from profilers.steady.host import host_id
from studies.rounds import open_round
from studies.study import read_study
from tests.synthetic import PaperProbes, profiled
from warehouse.warehouse import read_only


@pytest.fixture
def landing(tmp_path: Path, study_file: Path, probes: PaperProbes) -> Path:
    """Return another machine's landing folder, with three runs."""
    folder = tmp_path / "elsewhere"
    study = read_study(study_file)
    found = open_round(study, asking_of(study), "loopback", host_id(), [])
    profiled(found, folder)
    return folder


def loaded(home: Path) -> int:
    return int(read_only(home, "SELECT count(*) AS runs FROM raw.run")["runs"][0])


def test_runs_of_another_machine_are_copied_and_loaded_once(
    stepcast: Callable[..., Any], home: Path, landing: Path
) -> None:
    first = stepcast("load", str(landing))
    assert (first.code, first.out) == (
        0,
        f"copied 3 runs from {landing}\nloaded 3 runs, 0 were there already\n",
    )
    second = stepcast("load", str(landing))
    assert second.out == f"copied 0 runs from {landing}\nloaded 0 runs, 3 were there already\n"
    assert loaded(home) == 3
    assert len(list(landing.iterdir())) == 3


def test_without_a_folder_what_has_landed_here_is_loaded(
    stepcast: Callable[..., Any], home: Path
) -> None:
    assert stepcast("load").out == "loaded 0 runs, 0 were there already\n"


def test_a_broken_run_is_set_aside_and_the_others_load(
    stepcast: Callable[..., Any], home: Path, landing: Path
) -> None:
    import polars as pl

    (broken,) = landing.glob("*-links-*")
    pl.read_parquet(broken / "link.parquet").drop("bytes").write_parquet(broken / "link.parquet")
    answer = stepcast("load", str(landing))
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert line.startswith(
        f"stepcast: {broken.name} was set aside: link.parquet: missing columns bytes"
    )
    assert line.endswith(
        f"see {home}/landing/quarantine; to try one again, move its folder back to landing/ "
        "and run `stepcast load`"
    )
    assert loaded(home) == 2


def test_a_run_with_a_symbolic_link_is_not_copied_and_the_others_are(
    stepcast: Callable[..., Any], home: Path, landing: Path
) -> None:
    (bad,) = landing.glob("*-links-*")
    (bad / "edge.parquet").symlink_to("/etc/passwd")
    answer = stepcast("load", str(landing))
    assert answer.code == 2
    assert answer.out == f"copied 2 runs from {landing}\nloaded 2 runs, 0 were there already\n"
    assert answer.err.startswith(f"stepcast: run {bad.name} was not copied: edge.parquet is a symb")
    assert not (home / "landing" / bad.name).exists()


def test_a_folder_that_is_not_there_is_told(stepcast: Callable[..., Any], home: Path) -> None:
    answer = stepcast("load", "/nowhere/at/all")
    assert answer.code == 2
    assert "/nowhere/at/all is not a folder" in answer.err
