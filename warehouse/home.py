"""Where this project keeps what it remembers, and which version of it this is."""

import os
import subprocess
from functools import cache
from pathlib import Path

MAIN = "warehouse.duckdb"
HISTORY = "history.duckdb"
JOURNAL = "journal"
FLEET_MEMBERS = "fleet-members.yaml"
REPORT = "report.html"
PAPERS = "papers.html"
BACKUPS = "backups"
DAMAGED = "damaged"
"""Of a home: files that were damaged, and what stood in the way of a sound one, by time."""
CHECKOUT = Path(__file__).parents[1]
"""The checkout; where Stepcast is installed, the folder that holds its packages."""

PUBLIC = Path(__file__).with_name("public")
"""What others measured, as the package brings it; in a checkout a link to data/public."""


@cache
def is_checkout() -> bool:
    """Tell whether this is a checkout, and not a package that was installed."""
    return (CHECKOUT / "pyproject.toml").is_file()


def home() -> Path:
    """Return the folder of warehouse, landing and reports: STEPCAST_HOME, or .stepcast.

    That is in the checkout or, where Stepcast is installed, in the working directory.
    """
    given = os.environ.get("STEPCAST_HOME", "")
    if os.path.isabs(given):
        return _path(given)
    place = CHECKOUT if is_checkout() else Path.cwd()
    return Path(given or place / ".stepcast").absolute()


_path = cache(Path)
"""A path of a text: a sweep asks for its home a hundred times a scenario."""


# Which Stepcast this is, as runs and the ledger note it.


@cache
def code_version() -> str:
    """Return what git calls this checkout, or the version of the installed package."""
    if not is_checkout():  # a repository around it would be the user's own
        return version()
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
        return version()
    return described.stdout.strip()


def version() -> str:
    """Return the version of the project: of the checkout, or of the installed package."""
    # Help, which needs no version, would take a fifth longer.
    import tomllib
    from importlib import metadata

    if not is_checkout():
        return metadata.version("stepcast")
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    return str(project["version"])
