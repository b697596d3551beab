"""What has landed here goes to the prefix; what fails there does not fail what was measured."""

from pathlib import Path

import pytest

from assets.measurements import load
from assets.resources import WarehouseResource
from assets.sites import send
from studies.messages import Progress
from tests.warehouse.conftest import Maker
from warehouse.sites import PREFIX, prefix_of


class Warned(Progress):
    """Keeps what it is warned of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture
def progress() -> Warned:
    return Warned()


@pytest.fixture
def site(home: Path) -> WarehouseResource:
    """Return the warehouse of a site on which two runs have landed."""
    make = Maker(home)
    for number in (1, 2):
        make.profile(f"r{number}", make.scenario(), repeat=number)
    return WarehouseResource(home=str(home))


def test_what_is_loaded_after_a_probe_goes_to_the_prefix_too(
    site: WarehouseResource, place: str, progress: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PREFIX, place)
    (site.landing / "r2" / "timing.parquet").write_bytes(b"PAR1")
    load(site, progress)
    assert list(prefix_of(place).runs()) == ["r1"]
    (set_aside,) = progress.texts
    assert set_aside.startswith("landed run r2 was set aside in ")


def test_without_a_prefix_nothing_goes(
    site: WarehouseResource, progress: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PREFIX, raising=False)
    send(site, progress)
    assert progress.texts == []


def test_what_cannot_go_is_told_and_goes_next_time(
    site: WarehouseResource, tmp_path: Path, progress: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "mounted"
    monkeypatch.setenv(PREFIX, str(place))
    send(site, progress)
    (text,) = progress.texts
    assert text.startswith(f"nothing more was pushed: {place} is not a folder")
    place.mkdir()
    (site.landing / "r2" / "timing.parquet").write_bytes(b"PAR1")
    send(site, progress)
    assert progress.texts[1].startswith("run r2 was not pushed: timing.parquet is not the file")
    assert list(prefix_of(str(place)).runs()) == ["r1"]
