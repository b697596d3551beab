"""Other programs: what they tell is taken within limits of size and time."""

import subprocess
import sys
import time

import pytest

from profilers import commands
from warehouse import limits
from warehouse.records import MissingTool, ProbeFailed


def test_a_failure_is_told_with_its_last_words() -> None:
    with pytest.raises(ProbeFailed, match=r"`sh -c .*` exited with 3: no$"):
        commands.run(["sh", "-c", "echo no >&2; exit 3"])
    with pytest.raises(MissingTool, match="no-such-tool is not installed"):
        commands.run(["no-such-tool"])


def test_too_long_an_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is: `yes` never ends."""
    monkeypatch.setattr(limits, "SENT_BYTES", 300_000)
    with pytest.raises(ProbeFailed, match="more than 300,000 bytes in one answer"):
        commands.run(["yes"])


def test_a_flood_of_errors_keeps_its_end() -> None:
    program = "import sys; sys.stderr.write('x' * 300_000 + 'the end'); sys.exit(1)"
    code, _, errors = commands.run_with_input([sys.executable, "-c", program], timeout_s=20)
    assert code == 1
    assert errors.endswith(b"xthe end")
    assert len(errors) == 10_000


def test_it_ends_in_time_also_if_it_has_closed_its_output() -> None:
    for script in ("sleep 100", "exec >&-; sleep 100"):
        before_s = time.monotonic()
        with pytest.raises(ProbeFailed, match=r"did not end within 0\.5 s"):
            commands.run(["sh", "-c", f"exec 2>&-; {script}"], timeout_s=0.5)
        assert time.monotonic() < before_s + 20
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run_with_input(["sleep", "100"], timeout_s=0.2)
