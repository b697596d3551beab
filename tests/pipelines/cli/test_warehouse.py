"""`stepcast warehouse …`: what it prints, and its exit codes."""

from pathlib import Path

import duckdb
import pytest

from tests.pipelines.ran import Stepcast
from warehouse.warehouse import Warehouse

COMMANDS = ["backup", "check", "compact"]


@pytest.fixture
def loaded(home: Path) -> Path:
    """Return a home with an empty warehouse that has been published."""
    Warehouse(home).load()
    return home


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_warehouse_it_is_exit_2(stepcast: Stepcast, home: Path, command: str) -> None:
    answer = stepcast("warehouse", command)
    assert answer.refusal.startswith(f"stepcast: no warehouse in {home} yet")
    assert list(home.iterdir()) == []


def test_a_sound_warehouse_is_one_line(stepcast: Stepcast, loaded: Path) -> None:
    answer = stepcast("warehouse", "check")
    assert answer.printed.startswith("sound: 0 runs, 0 fits, 0 predictions, schema version ")
    assert answer.printed.count("\n") == 1


def test_a_broken_one_is_exit_1(stepcast: Stepcast, loaded: Path) -> None:
    with duckdb.connect(str(loaded / "warehouse.duckdb")) as connection:
        connection.execute("INSERT INTO raw.edge VALUES ('ghost', 0, 1)")
    answer = stepcast("warehouse", "check")
    assert answer.code == 1
    assert "broken: 1 orphan rows in raw.edge of run ghost" in answer.out
    assert "broken: history.duckdb is older than warehouse.duckdb; `stepcast load`" in answer.out
    assert answer.out.splitlines()[-1].startswith("2 broken: 0 runs")


def test_backup_and_compact_say_what_they_did(
    stepcast: Stepcast, loaded: Path, tmp_path: Path
) -> None:
    answer = stepcast("warehouse", "backup", str(tmp_path / "usb"))
    (copy,) = (tmp_path / "usb").iterdir()
    assert answer.printed.startswith(f"{copy}: ")
    assert answer.printed.endswith(" MB, verified\n")
    assert stepcast("warehouse", "compact").printed.count(" MB ") == 2
