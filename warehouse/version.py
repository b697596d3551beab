"""Which Stepcast this is, as runs and the ledger note it."""

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path


@cache
def code_version() -> str:
    """Return what git calls this checkout, or the version of the installed package."""
    try:
        described = subprocess.run(
            ["git", "describe", "--tags", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            check=True,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return metadata.version("stepcast")
    return described.stdout.strip()
