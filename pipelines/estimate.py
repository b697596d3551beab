"""How long is left of a plan, corrected by how long what is finished took."""

from collections.abc import Sequence
from time import monotonic

from studies.plan import Task

_PRIOR_S = 30.0
"""How many expected seconds the plan's own guess weighs against what was seen."""


class Estimate:
    """Follows a plan. Times are seconds of the clock `now`."""

    def __init__(self, tasks: Sequence[Task], now: float | None = None) -> None:
        self._left = list(tasks)
        self._done_expected_s = 0.0
        self._done_s = 0.0
        self._started = self._task_started = monotonic() if now is None else now

    def finish(self, name: str, now: float | None = None) -> None:
        """Note that a task is over; one that the plan lacks changes nothing."""
        now = monotonic() if now is None else now
        for task in self._left:
            if task.name == name:
                self._left.remove(task)
                self._done_expected_s += task.expected_s
                self._done_s += now - self._task_started
                self._task_started = now
                return

    def elapsed_s(self, now: float | None = None) -> float:
        """Return the seconds since the plan was begun."""
        return (monotonic() if now is None else now) - self._started

    def left_s(self, now: float | None = None) -> float:
        """Return about how many seconds are left."""
        if not self._left:
            return 0.0
        now = monotonic() if now is None else now
        pace = (self._done_s + _PRIOR_S) / (self._done_expected_s + _PRIOR_S)
        current, *later = (pace * task.expected_s for task in self._left)
        return max(current - (now - self._task_started), 0.0) + sum(later)


def readable(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds < 55:
        return f"{max(5 * round(seconds / 5), 5)} s"
    if seconds < 570:
        minutes, part = divmod(round(seconds / 10) * 10, 60)
        return f"{minutes} min {part} s" if part else f"{minutes} min"
    return f"{round(seconds / 60)} min"
