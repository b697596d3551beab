"""`stepcast timeline`, on profiles that exist on paper."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from forecasting.chosen import asking_of
from profilers.steady.host import host_id
from studies.rounds import open_round
from studies.study import read_study
from tests import synthetic
from tests.synthetic import PaperProbes, write_study
from warehouse.warehouse import Warehouse, read_only

LABEL = "small_cnn 16px b4, unshaped, W=2"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a home in which a study has been profiled; predictions are short."""
    home = tmp_path_factory.mktemp("profiled")
    with pytest.MonkeyPatch.context() as patch:
        PaperProbes().install(patch)
        landing = home / "landing"
        study = read_study(write_study(home))
        round_ = open_round(study, asking_of(study), "loopback", host_id(), [])
        synthetic.profiled(round_, landing)
        Warehouse(home).load()
        yield home


@pytest.fixture
def timeline(
    stepcast: Callable[..., Any], profiled: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Return the command on that study."""
    monkeypatch.setenv("STEPCAST_HOME", str(profiled))
    return lambda *arguments: stepcast("timeline", str(profiled / "paper.yaml"), *arguments)


def test_steps_are_printed(timeline: Callable[..., Any]) -> None:
    answer = timeline("--scenario", LABEL, "--steps", "3")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].startswith(f"{LABEL}: ")
    assert "steps/s in this simulation" in lines[0]
    assert lines[-1] == "6 rows"


def test_files_are_written_and_rows_are_kept(
    timeline: Callable[..., Any], profiled: Path, tmp_path: Path
) -> None:
    chrome, picture = tmp_path / "w2.json", tmp_path / "w2.png"
    options = ["--chrome", str(chrome), "--picture", str(picture), "--save", "--steps", "2"]
    answer = timeline("--scenario", LABEL, *options)
    assert answer.code == 0, answer.err
    trace = json.loads(chrome.read_text())
    assert trace["otherData"]["scenario"] == LABEL
    assert {one["pid"] for one in trace["traceEvents"]} == {0, 1}
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = read_only(
        profiled,
        "SELECT worker, count(DISTINCT step) AS steps, min(start_us) >= 0 AS since_0 "
        "FROM pred.synthetic_interval JOIN fit.fit USING (fit_id) GROUP BY worker ORDER BY worker",
    )
    assert rows.rows() == [(0, 2, True), (1, 2, True)]
    assert f"{2 * 2 * 8} rows of fit {trace['otherData']['fit_id']}" in answer.out


def test_one_worker_has_its_traced_steps_below(
    timeline: Callable[..., Any], tmp_path: Path
) -> None:
    picture = tmp_path / "w1.svg"
    label = LABEL.replace("W=2", "W=1")
    assert timeline("--scenario", label, "--picture", str(picture)).code == 0
    assert "traced in the profile" in picture.read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--scenario", "small_cnn W=2"], f"has no scenario 'small_cnn W=2'; near are '{LABEL}', "),
        (["--scenario", LABEL, "--picture", "a.pdf"], "--picture a.pdf: expected a name that ends"),
        (["--scenario", LABEL, "--chrome", "/no/where"], "/no/where cannot be written: No such"),
        (["--scenario", LABEL, "--steps", "9999"], "ask for fewer"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(
    timeline: Callable[..., Any], arguments: list[str], expected: str
) -> None:
    answer = timeline(*arguments)
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert expected in line


def test_a_study_that_has_not_run_is_told(
    stepcast: Callable[..., Any], home: Path, study_file: Path
) -> None:
    answer = stepcast("timeline", str(study_file), "--scenario", LABEL)
    assert answer.code == 2
    assert "nothing of study paper has landed yet; run it first" in answer.err


def test_a_profile_that_is_not_loaded_is_told(
    stepcast: Callable[..., Any], home: Path, profiled: Path
) -> None:
    shutil.copytree(profiled / "landing", home / "landing")
    answer = stepcast("timeline", str(profiled / "paper.yaml"), "--scenario", LABEL)
    assert answer.code == 2
    assert "nothing has been published in " in answer.err
    assert answer.err.endswith(" yet; `stepcast load` does that\n")
