"""Temporary files: whose they are, and when they go."""

import os
import time
from pathlib import Path

import pytest

from warehouse.durable_files import sweep, sweep_home, temporary


def named(path: Path, **changed: object) -> Path:
    """Return the path of a temporary file with other parts of its name."""
    _, pid, machine, began, digits = path.name.split("-")
    parts = {"pid": pid, "machine": machine, "began": began} | changed
    return path.with_name(f".tmp-{parts['pid']}-{parts['machine']}-{parts['began']}-{digits}")


def test_what_a_living_process_makes_stays(tmp_path: Path) -> None:
    own = temporary(tmp_path)
    own.write_text("half a file")
    assert sweep(tmp_path) == []
    assert own.exists()


def test_what_a_process_left_goes_also_when_another_has_its_id(
    tmp_path: Path, dead_pid: int
) -> None:
    left = named(temporary(tmp_path), pid=dead_pid), named(temporary(tmp_path), began=7)
    left[0].mkdir()
    (left[0] / "spilled").write_bytes(bytes(100))
    left[1].write_text("half a file")
    assert sorted(sweep(tmp_path)) == sorted(left)
    assert list(tmp_path.iterdir()) == []


def test_what_another_machine_or_container_makes_stays_for_a_day(
    tmp_path: Path, dead_pid: int
) -> None:
    theirs = named(temporary(tmp_path), machine="00000000", pid=dead_pid)
    theirs.write_text("half a file")
    assert sweep(tmp_path) == []
    os.utime(theirs, (time.time() - 90_000,) * 2)
    assert sweep(tmp_path) == [theirs]


def test_files_of_an_earlier_name_go_with_their_process(tmp_path: Path, dead_pid: int) -> None:
    for pid in (dead_pid, os.getpid()):
        (tmp_path / f".tmp-{pid}-0123456789abcdef0123456789abcdef").touch()
    assert len(sweep(tmp_path)) == 1


@pytest.mark.parametrize("place", [".", "answers", "graphs/0123456789abcdef"])
def test_all_folders_of_a_home_are_swept(tmp_path: Path, place: str, dead_pid: int) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    left = named(temporary(tmp_path / place), pid=dead_pid)
    left.touch()
    assert sweep_home(tmp_path) == [left]
    assert sweep_home(tmp_path / "none") == []
