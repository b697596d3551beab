"""Errors are one line with the right exit code, also when Dagster wrapped them."""

import pytest

from networks import UnknownNetwork
from pipelines.cli.errors import Interrupted, explain
from warehouse.records import BadInput, MissingTool, ProbeFailed, Strategy, WarehouseBusy


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


def test_wrong_values_are_the_users_mistake() -> None:
    with pytest.raises(ValueError, match="workers") as caught:
        Strategy(workers=0)
    code, line = explain(caught.value)
    assert code == 2
    assert "\n" not in line


def test_long_errors_keep_both_ends() -> None:
    code, line = explain(ProbeFailed("start " + "stack frame\n" * 500 + "the end"))
    assert code == 1
    assert line.startswith("start stack frame")
    assert line.endswith("stack frame the end")
    assert len(line) < 700
