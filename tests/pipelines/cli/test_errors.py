"""Errors are one line with the right exit code, also when Dagster wrapped them."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from networks import UnknownNetwork
from pipelines.cli.errors import Interrupted, explain
from warehouse.records import BadInput, MissingTool, ProbeFailed, WarehouseBusy


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadInput("what"), 2),
        (MissingTool("what"), 2),
        (WarehouseBusy("what"), 2),
        (ProbeFailed("what"), 1),
        (UnknownNetwork("what"), 2),
        (Interrupted("what"), 130),
    ],
)
def test_known_errors_say_what_they_say(error: Exception, code: int) -> None:
    assert explain(error) == (code, "what")


def test_the_cause_counts() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            raise BadInput("the cause")
        except BadInput as cause:
            raise RuntimeError("a wrapper") from cause
    assert explain(caught.value) == (2, "the cause")


def test_what_was_handled_before_does_not_count() -> None:
    with pytest.raises(RuntimeError) as caught:
        try:
            raise BadInput("handled")
        except BadInput:
            raise RuntimeError("a bug in handling it")  # noqa: B904
    code, line = explain(caught.value)
    assert code == 1
    assert line.startswith("unexpected RuntimeError: a bug in handling it")


def test_long_errors_keep_both_ends() -> None:
    code, line = explain(ProbeFailed("start " + "stack frame\n" * 500 + "the end"))
    assert code == 1
    assert line.startswith("start stack frame")
    assert line.endswith("stack frame the end")
    assert len(line) < 700


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_said_in_one_line(number: int, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    code, line = explain(OSError(number, os.strerror(number), str(path)))
    assert code == 1
    assert line.startswith(f"the disk is full, or a quota is used up: {path} could not be written")
    assert "MB are free there); free disk space and run the command again" in line
    assert "\n" not in line
    assert "unexpected" not in explain(OSError(number, os.strerror(number)))[1]
    of_polars = pl.exceptions.ComputeError(f"{os.strerror(number)} (os error {number})")
    assert explain(of_polars)[1].startswith("the disk is full, or a quota is used up")


def raised_by(work: Callable[[], object]) -> OSError:
    with pytest.raises(OSError, match="Errno") as caught:
        work()
    return caught.value


def test_a_home_that_cannot_be_is_the_users_choice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that cannot be made, a file, a read-only one, one without permission."""
    file = tmp_path / "file"
    file.write_text("no folder")
    closed = tmp_path / "closed"
    closed.mkdir()
    errors = {
        Path("/proc/nowhere"): raised_by(Path("/proc/nowhere/landing").mkdir),
        Path("/proc/self/nowhere"): raised_by(lambda: Path("/proc/self/nowhere").mkdir()),
        file: raised_by((file / "landing").mkdir),
        closed: PermissionError(errno.EACCES, "Permission denied", str(closed / "landing")),
        tmp_path: OSError(errno.EROFS, "Read-only file system", str(tmp_path / "landing")),
    }
    for place, error in errors.items():
        monkeypatch.setenv("STEPCAST_HOME", str(place))
        code, line = explain(error)
        assert code == 2
        assert line.startswith(f"{place} cannot be the home of Stepcast ({error.strerror}: {place}")
        assert line.endswith(
            "set STEPCAST_HOME to a folder that you may write, or to one that can be made"
        )
