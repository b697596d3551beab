"""The rule that only tests with special needs may skip holds."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import OBSTACLES

CHECKOUT = Path(__file__).parents[1]
CONTRIBUTING = CHECKOUT / "CONTRIBUTING.md"
_PLUGINS = re.compile(r"^pytest_plugins = .*$", re.MULTILINE)
TESTS = """
import pytest

def test_skips():
    pytest.skip("no")

@pytest.mark.skip
def test_marked_skip():
    pass

def test_home(home):
    assert home.is_dir() and not list(home.iterdir())

@pytest.mark.aws
def test_cloud():
    pass
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with `TESTS`, this project's settings and its conftest."""
    monkeypatch.delenv("STEPCAST_AWS_FLEET", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(TESTS)
    # Without the fixtures of studies on paper, whose modules are not there.
    conftest = (CHECKOUT / "tests/conftest.py").read_text()
    assert _PLUGINS.search(conftest)
    (tmp_path / "tests/conftest.py").write_text(_PLUGINS.sub("", conftest))
    shutil.copy(CHECKOUT / "pyproject.toml", tmp_path)
    return tmp_path


def run_pytest(project: Path, *arguments: str) -> tuple[int, str]:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_only_marked_tests_may_skip(project: Path) -> None:
    code, output = run_pytest(project)
    assert code == 1
    assert "FAILED tests/test_it.py::test_skips" in output
    assert "ERROR tests/test_it.py::test_marked_skip" in output
    assert "PASSED tests/test_it.py::test_home" in output
    assert "1 failed, 1 passed, 1 skipped, 1 error" in output


def test_a_required_marker_may_not_skip(project: Path) -> None:
    code, output = run_pytest(project, "--require", "aws")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "test_cloud cannot run here: STEPCAST_AWS_FLEET is not set" in output


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
