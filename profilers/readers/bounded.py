"""Values of foreign traces within bounds: what the tables can hold, and what is left out."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from warehouse.records import BadInput

MOST = 2**63 - 1
"""The largest integer of a column."""
MOST_US = 2**31 - 1
"""The largest time in a step that a column holds, microseconds: 2,147 s."""

WholeNumber = Annotated[int, msgspec.Meta(ge=-MOST - 1, le=MOST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Time_us = Annotated[float, msgspec.Meta(ge=-(2.0**60), le=2.0**60)]
Duration_us = Annotated[float, msgspec.Meta(ge=0, le=2.0**60)]

NO_EVENTS = ("", "M", "s", "t", "f")
"""Phases of Chrome's trace format that are no events: names of processes, arrows between events."""

_MOST_POSITIONS = 8
_MOST_REASONS, _NAME_CHARACTERS = 32, 60
_OTHERS = "others", None
_HALF = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


class OmissionCounter:
    """Counts what a file has and the tables lack, by why, for a bounded number of reasons."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, str | None]] = Counter()

    def add(self, what: str, name: str | None = None, count: int = 1) -> None:
        """Count things that are left out; `name` is what the file calls them."""
        reason = what, name if name is None else name[:_NAME_CHARACTERS]
        if reason not in self._counted and len(self._counted) >= _MOST_REASONS:
            reason = _OTHERS
        self._counted[reason] += count

    def __call__(self) -> dict[str, int]:
        """Return the counts that are not 0."""
        return {
            what if name is None else f"{what} {name!r}": count
            for (what, name), count in self._counted.items()
            if count
        }


def product(factors: Iterable[int]) -> int | None:
    """Return the product of factors, or None if it does not fit a column.

    Ends early: the product of a million factors has millions of digits.
    """
    found = 1
    for factor in factors:
        found *= factor
        if abs(found) > MOST:
            return None
    return found


def describe_repeat(names: Sequence[str], first: int = 1) -> str:
    """Say which name is there more than once, and where; `first` is the position of the first."""
    places: dict[str, list[int]] = {}
    for position, name in enumerate(names, start=first):
        places.setdefault(name, []).append(position)
    for name, positions in places.items():
        if len(positions) > 1:
            shown = ", ".join(map(str, positions[:_MOST_POSITIONS]))
            return f"{name!r:.60} is column {shown}{', …' * (len(positions) > _MOST_POSITIONS)}"
    return ""


def clean(text: str) -> str:
    """Return a text of JSON with halves of characters replaced by U+FFFD, as UTF-8 has none."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def as_json(value: object, where: object) -> str:
    """Return a parsed JSON value as the JSON that a column holds.

    Raises:
        BadInput: it is nested too deeply, or has a number beyond what JSON has.
    """
    try:
        return clean(_encode(value))
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{where}: a value that no column holds ({error})") from None
