"""The command of the fleet file that hears of changes: what it is given, and what goes wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet import notice
from profilers.clusters.fleet import VARIABLE, read_fleet
from warehouse.records import BadInput

FACTS = {"error": "disk full, a lot — sorry", "partition": None}


def test_a_command_is_given_text_and_facts(notices: Callable[[], list[dict[str, Any]]]) -> None:
    notice.tell("demo failed", FACTS, pytest.fail)
    assert notices() == [
        {"text": "demo failed\n\nerror: disk full, a lot — sorry", "title": "demo failed", **FACTS}
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("['false', hunter2]", "exit 1"),
        ("[no-such-program, hunter2]", "exit 127"),
        ("[sh, -c, sleep 600 & wait, hunter2]", "TimeoutExpired"),
        ("hunter2", "BadInput"),
    ],
)
def test_what_goes_wrong_is_a_warning_without_the_words_of_the_command(
    words: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends in time, and what it has started is waited for no longer."""
    monkeypatch.setattr(notice, "_TIMEOUT_S", 0.5)
    (tmp_path / "fleet.yaml").write_text(f"on_change: {words}")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "fleet.yaml"))
    warnings: list[str] = []
    notice.tell("demo failed", FACTS, warnings.append)
    assert warnings == [f"on_change of the fleet file did not take 'demo failed': {why}"]


def test_a_webhook_is_refused_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet.yaml").write_text("webhook: https://chat.example.org/hooks/hunter2")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "fleet.yaml"))
    with pytest.raises(BadInput, match=r"write `on_change: \[curl, --data-binary, '@-'") as refused:
        read_fleet()
    assert "hunter2" not in str(refused.value)
