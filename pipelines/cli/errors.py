"""Errors as the user sees them: one line and an exit code."""

from collections.abc import Iterator

from pydantic import ValidationError

from networks import UnknownNetwork
from warehouse.records import StepcastError

INTERRUPTED = 130
_LONGEST = 600


class Interrupted(StepcastError):
    """The user stopped the command."""

    exit_code = INTERRUPTED


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error and its one line.

    The error that counts may be wrapped in one of Dagster's.
    """
    for one in _chain(error):
        if isinstance(one, StepcastError):
            return one.exit_code, _line(str(one))
        if isinstance(one, UnknownNetwork | ValidationError):
            return 2, _line(str(one))
    what = f"{type(error).__name__}: {error}"
    return 1, _line(f"unexpected {what}") + "; `stepcast --debug …` shows where it happened"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _line(text: str) -> str:
    """Join lines; of a long text keep both ends, for the cause of a crash is at the end."""
    line = " ".join(text.split())
    if len(line) <= _LONGEST:
        return line
    half = _LONGEST // 2
    return f"{line[:half]} … {line[-half:]}"
