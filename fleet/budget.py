"""How much machine time a visit may still take."""

from collections.abc import Callable
from time import monotonic

from profilers.renting.cap import BudgetExceeded

__all__ = ["Budget", "BudgetExceeded"]


class Budget:
    """The seconds of a visit, by a clock that nobody can set.

    Args:
        most_s: that it may take.
        spent_s: what an interrupted part of it has taken.
        clock: seconds that only grow.
    """

    def __init__(
        self, most_s: float, spent_s: float = 0.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._most_s, self._clock = most_s, clock
        self._began_s = clock() - spent_s

    @property
    def left_s(self) -> float:
        """What is left."""
        return max(self._most_s - (self._clock() - self._began_s), 0.0)

    def may_take(self, expected_s: float) -> None:
        """Refuse what takes longer than is left.

        Raises:
            BudgetExceeded: it does.
        """
        if expected_s > self.left_s:
            raise BudgetExceeded(
                f"the next run takes about {_minutes(expected_s)}, and {_minutes(self.left_s)} of "
                f"{_minutes(self._most_s)} are left; the next visit goes on"
            )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
