"""What pages say can be done: their studies can be forecast, the files that they name are there."""

import re
from pathlib import Path

import pytest
import yaml

from forecasting.checks import check_forecasts
from studies.study import read_study
from warehouse.home import CHECKOUT

PAGES = sorted([*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")])
ADDED = CHECKOUT / "docs" / "extend.md"
"""The page that adds files which are not there; `tests/test_extend.py` follows it."""
_YAML = re.compile(r"^ *```yaml\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(
    r"`((?:assets|benchmarks|forecasting|models|networks|pipelines|profilers|reports|scripts|studies"
    r"|tests|warehouse)/[\w./-]+\.(?:py|sql|yaml|html|csv|json))`"
)


def studies() -> list[tuple[str, str]]:
    """Return page and text of each study that is whole, those of `ADDED` left out."""
    found = []
    for page in PAGES:
        for text in _YAML.findall(page.read_text()):
            content = yaml.safe_load(text)
            if page != ADDED and isinstance(content, dict) and {"name", "test"} <= content.keys():
                found.append((page.name, text))
    return found


def test_there_is_a_study_to_follow() -> None:
    assert "studies.md" in {page for page, _ in studies()}


@pytest.mark.parametrize(("page", "text"), studies(), ids=[page for page, _ in studies()])
def test_studies_can_be_measured_and_forecast(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(text)
    check_forecasts(read_study(file), file, "loopback")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_that_are_named_are_there(page: Path) -> None:
    if page != ADDED:
        named = set(_FILE.findall(page.read_text()))
        assert not [name for name in named if not (CHECKOUT / name).exists()]
