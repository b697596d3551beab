"""Which Stepcast this is, as runs and the ledger note it."""

import subprocess
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

from warehouse.home import CHECKOUT, is_checkout


@cache
def code_version() -> str:
    """Return what git calls this checkout, or the version of the installed package."""
    if not is_checkout():  # a repository around it would be the user's own
        return metadata.version("stepcast")
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


def version() -> str:
    """Return the version of the project: of the checkout, or of the installed package."""
    if not is_checkout():
        return metadata.version("stepcast")
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return str(project["version"])
