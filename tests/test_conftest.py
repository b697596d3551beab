"""What costs money asks for consent; each kind of fault has a test on every push."""

import re
from pathlib import Path

import pytest

from tests.conftest import OBSTACLES

CHECKOUT = Path(__file__).parents[1]
CONTRIBUTING = CHECKOUT / "CONTRIBUTING.md"


def test_what_costs_money_needs_a_fleet_file_and_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    fleet, why = tmp_path / "fleet.yaml", OBSTACLES["aws"]
    monkeypatch.setenv("STEPCAST_AWS_FLEET", str(fleet))
    assert why() == f"STEPCAST_AWS_FLEET names no file: {fleet}"
    fleet.touch()
    assert why() == "there are no credentials of AWS"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert why() is None


def test_every_kind_of_fault_keeps_a_test_on_every_push() -> None:
    rows = re.findall(r"^\| [^|`]+ \| (`tests/.*`) \|$", CONTRIBUTING.read_text(), re.MULTILINE)
    assert len(rows) > 20
    for file in re.findall(r"`([^`]+)`", " ".join(rows)):
        tests = re.findall(r"((?:^@.*\n)*)^def test_", (CHECKOUT / file).read_text(), re.MULTILINE)
        assert [marks for marks in tests if "mark.exhaustive" not in marks], file
