"""What tests of assets share: a study on paper, and probes that run nothing."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from forecasting.inputs import inputs_of_study
from profilers.steady.host import host_id
from studies.measurement import measure
from studies.messages import Progress
from studies.rounds import Round, open_round
from studies.study import read_study
from tests.synthetic import CAPTURING, STUDY, PaperProbes, profiled, write_study


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    """Return the file of a study on the loopback backend."""
    return write_study(tmp_path)


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> PaperProbes:
    """Put probes that run nothing in the place of the real ones, and return them."""
    installed = PaperProbes()
    installed.install(monkeypatch)
    return installed


@pytest.fixture
def landing(home: Path) -> Path:
    """Return the landing folder of a fresh home."""
    return home / "landing"


@pytest.fixture(scope="session")
def landed_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Round, Path]]:
    """Return what runs a whole round of the study with this text, the first time it is asked.

    Tests only look at the landing folder that comes with the round.
    """

    @cache
    def run(text: str) -> tuple[Round, Path]:
        folder = tmp_path_factory.mktemp("landed")
        landing = folder / "landing"
        study = read_study(write_study(folder, text))
        round_ = open_round(study, inputs_of_study(study), "loopback", host_id(), [])
        with pytest.MonkeyPatch.context() as patch:
            PaperProbes().install(patch)
            round_ = measure(profiled(round_, landing), landing, Progress())
        return round_, landing

    return run


@pytest.fixture
def landed_round(
    landed_once: Callable[[str], tuple[Round, Path]],
    tmp_path: Path,
    landing: Path,
    probes: PaperProbes,
) -> Callable[[str], Round]:
    """Return what gives a whole round of the study with this text, in this test's home."""
    del probes

    def run(text: str) -> Round:
        write_study(tmp_path, text)
        round_, shared = landed_once(text)
        shutil.copytree(shared, landing)
        return round_

    return run


@pytest.fixture
def round_(landed_round: Callable[[str], Round]) -> Round:
    """Return a round of which everything has landed, without captured packets."""
    return landed_round(STUDY)


@pytest.fixture
def captured_round(landed_round: Callable[[str], Round]) -> Round:
    """Return a round of which everything has landed, with captured packets."""
    return landed_round(CAPTURING)
