"""Names that become part of a path: of studies, jobs, runs, clusters."""

import re
from collections.abc import Collection
from difflib import get_close_matches
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


def nearest(name: str, known: Collection[str], most: int = 3) -> list[str]:
    """Return known names that somebody may have meant: of the same kind, or a slip of the keys.

    Kinds are the letters that names begin with: p5.48xlarge is near p4d.24xlarge, never m5.large.

    Args:
        name: that nobody knows.
        known: all that there are.
        most: how many at most, the nearest first.
    """
    alike = [one for one in known if _kind(one) == _kind(name)]
    return get_close_matches(name, alike, most, 0.3) or get_close_matches(name, known, most, 0.8)


def _kind(name: str) -> str:
    letters = re.match(r"[a-z]*", name.lower())
    assert letters is not None
    return letters.group()
