"""Where this project keeps what it remembers."""

import os
from functools import cache
from pathlib import Path

MAIN = "warehouse.duckdb"
HISTORY = "history.duckdb"
JOURNAL = "journal"
REPORT = "report.html"
BACKUPS = "backups"
DAMAGED = "damaged"
"""Of a home: files that were damaged, and what stood in the way of a sound one, by time."""
CHECKOUT = Path(__file__).parents[1]
"""The checkout; where Stepcast is installed, the folder that holds its packages."""


@cache
def is_checkout() -> bool:
    """Tell whether this is a checkout, and not a package that was installed."""
    return (CHECKOUT / "pyproject.toml").is_file()


def home() -> Path:
    """Return the folder of warehouse, landing and reports: STEPCAST_HOME, or .stepcast.

    That is in the checkout or, where Stepcast is installed, in the working directory.
    """
    place = CHECKOUT if is_checkout() else Path.cwd()
    return Path(os.environ.get("STEPCAST_HOME") or place / ".stepcast").absolute()
