"""Where this project keeps what it remembers."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def home() -> Path:
    """Return the folder of warehouse, landing and reports: STEPCAST_HOME, or .stepcast here."""
    return Path(os.environ.get("STEPCAST_HOME") or CHECKOUT / ".stepcast").absolute()
