"""What tests of assets share: a study on paper, and probes that run nothing."""

from pathlib import Path

import pytest

from tests.synthetic import PaperProbes, write_study


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
