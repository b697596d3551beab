"""How messages count and list things."""

from collections.abc import Sequence

_MOST_NAMED = 3


def count(number_of: int, what: str) -> str:
    """Return how many there are of something."""
    return f"{number_of} {what}{'' if number_of == 1 else 's'}"


def some(names: Sequence[str]) -> str:
    """Return the first few of several names, and how many others there are."""
    shown, others = "; ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{shown} and {others} more" if others > 0 else shown
