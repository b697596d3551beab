"""How what runs a study counts, lists and tells what it does."""

from collections.abc import Sequence

# How messages count and list things.


_MOST_NAMED = 3


def count(number_of: int, what: str) -> str:
    """Return how many there are of something."""
    return f"{number_of} {what}{'' if number_of == 1 else 's'}"


def name_some(names: Sequence[str]) -> str:
    """Return the first few of several names, and how many others there are."""
    shown, others = "; ".join(names[:_MOST_NAMED]), len(names) - _MOST_NAMED
    return f"{shown} and {others} more" if others > 0 else shown


# How what runs a study tells what it does and what it has finished.


class Progress:
    """Tells nobody; who wants to hear makes a class of it.

    Names of finished tasks are those of `studies.plan`.
    """

    def say(self, text: str) -> None:
        """Tell what runs now."""

    def warn(self, text: str) -> None:
        """Tell what the user should know although the run goes on."""

    def finished(self, task: str) -> None:
        """Tell that a task of the plan is over."""
