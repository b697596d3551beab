"""Folders that take long to make are made once for all processes of a test run."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that `make` has filled; tests only look at it, or copy it.

    With pytest-xdist, whoever comes first makes it, and the others wait.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with folder.with_name(f"{name}.made").open("a+") as made:
        fcntl.flock(made, fcntl.LOCK_EX)
        if not os.fstat(made.fileno()).st_size:
            make(folder)
            made.write("made\n")
    return folder
