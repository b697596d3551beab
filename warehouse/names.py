"""Names that become part of a path: of studies, jobs, runs, clusters."""

import re
from typing import Annotated

from pydantic import Field

from warehouse.records import BadInput

PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
"""No separator, no `..`, nothing that looks like an option or is hidden, and not too long."""
Name = Annotated[str, Field(pattern=PATTERN)]
"""Such a name as the field of a record."""


def checked_name(name: str, what: str) -> str:
    """Return a name that may become part of a path.

    Args:
        name: somebody's choice.
        what: what it names: "study".

    Raises:
        BadInput: it may not.
    """
    if not re.fullmatch(PATTERN, name):
        raise BadInput(
            f"{what} {name!r:.120} cannot be part of a path; use up to 100 letters, digits, . _ "
            "and -, and begin with a letter, a digit or _"
        )
    return name
