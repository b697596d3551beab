"""Bad input gets one clear line on stderr and exit 2; nothing is lost."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from pipelines.cli.main import main
from tests.synthetic import STUDY
from warehouse.warehouse import Warehouse

HOLD = """
import sys
import duckdb
connection = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must exit 2 and return its one line."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    captured = capsys.readouterr()
    assert stopped.value.code == 2, captured.err
    line = captured.err.strip()
    assert line.startswith("stepcast: ")
    assert "\n" not in line
    assert "Traceback" not in captured.out + captured.err
    return line


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (("dnn: small_cnn", "dnn: smal_cnn"), "test[0].dnn: unknown DNN 'smal_cnn'"),
        (("links:", "linsk:"), "no probe 'linsk'; did you mean links?"),
        (("image_size: 16", "image_size: 8"), "at least 16 pixels"),
        (("backend: loopback", "backend: cloud"), "backend"),
        (("name: paper", "name: [paper"), "YAML"),
    ],
)
def test_a_wrong_study_names_what_is_wrong(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    wrong: tuple[str, str],
    expected: str,
) -> None:
    study = tmp_path / "wrong.yaml"
    assert wrong[0] in STUDY
    study.write_text(STUDY.replace(*wrong, 1))
    line = refused(capsys, "run", str(study))
    assert "wrong.yaml" in line
    assert expected in line
    assert not (home / "landing").exists()


@pytest.mark.cluster
def test_more_shares_than_cores(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "many.yaml"
    many = STUDY.replace("loopback", "emulated").replace("workers: [1, 2]", "workers: [1, 999]")
    study.write_text(many)
    line = refused(capsys, "run", str(study))
    assert "cores" in line
    assert "fewer workers" in line


def test_a_study_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.yaml" in refused(capsys, "run", "nowhere.yaml")


def test_no_history_yet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "make demo" in refused(capsys, "sql", "SELECT 1")


@pytest.fixture
def held(home: Path) -> Iterator[int]:
    """The pid of another process that holds the warehouse."""
    file = home / "warehouse.duckdb"
    duckdb.connect(file).close()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process.pid
    process.kill()
    process.communicate()


def test_a_locked_warehouse_names_the_holder(
    home: Path, held: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = Warehouse.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "patience_s", 0.1)
    assert str(held) in refused(capsys, "load")
