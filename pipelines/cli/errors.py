"""Errors as the user sees them: one line and an exit code."""

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from networks import UnknownNetwork
from warehouse.extras import explain_missing
from warehouse.home import home
from warehouse.records import StepcastError

INTERRUPTED = 130
_LONGEST = 600
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS}


class Interrupted(StepcastError):
    """The user stopped the command."""

    exit_code = INTERRUPTED


@contextmanager
def interruptible(text: str) -> Iterator[None]:
    """Let the user stop a block, and say what that means.

    Raises:
        Interrupted: the user did.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(text) from None


def explain(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error and its one line, with what was noted beside it.

    The error that counts may be wrapped in one of Dagster's.
    """
    code, line = _without_notes(error)
    notes = [note for cause in _chain(error) for note in getattr(cause, "__notes__", ())]
    return code, "; ".join([line, *map(_line, notes)])


def _without_notes(error: BaseException) -> tuple[int, str]:
    for cause in _chain(error):
        if isinstance(cause, StepcastError):
            return cause.exit_code, _line(str(cause))
        if isinstance(cause, UnknownNetwork | ValidationError):
            return 2, _line(str(cause))
        if isinstance(cause, ModuleNotFoundError) and (line := explain_missing(str(cause))):
            return 1, line
        if (code_and_line := _of_the_place(cause)) is not None:
            return code_and_line
    what = f"{type(error).__name__}: {error}"
    return 1, _line(f"unexpected {what}") + "; `stepcast --debug …` shows where it happened"


def _of_the_place(error: BaseException) -> tuple[int, str] | None:
    """Return the exit code and line of an error of the disk or of the home; None if it is neither.

    A home that cannot be made or written is the user's to choose; a full disk is nobody's mistake.
    """
    if not isinstance(error, OSError):
        # Libraries in Rust, as Polars, have errors of their own that end in the system's number.
        match = re.search(r"\(os error (\d+)\)", str(error))
        error = OSError(int(match[1]), "") if match else OSError()
    place = home()
    if error.errno in _FULL:
        where = Path(str(error.filename)) if error.filename else place
        free = f"{shutil.disk_usage(_existing(where)).free / 1e6:.1f} MB are free there"
        text = f"the disk is full, or a quota is used up: {where} could not be written ({free})"
        return 1, _line(
            f"{text}; free disk space and run the command again: what was there before is whole"
        )
    path = Path(str(error.filename))
    if place in (path, *path.parents) and (error.errno in _CLOSED or not place.is_dir()):
        return 2, _line(
            f"{place} cannot be the home of Stepcast ({error.strerror}: {error.filename}); set "
            "STEPCAST_HOME to a folder that you may write, or to one that can be made"
        )
    return None


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())


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
