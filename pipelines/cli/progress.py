"""Progress as lines on stderr: what begins, how long all has run, what is left, what it has cost.

What is left is the expected time of what is planned, times how much slower than planned tasks were
so far.
"""

from collections.abc import Sequence
from time import monotonic

from pipelines.cli.money import spending_in_words
from pipelines.cli.tables import format_duration, tell
from studies.messages import Progress
from studies.plan import Task

_PRIOR_S = 30.0
"""How many expected seconds a first guess of the pace weighs against what was seen."""


class LineProgress(Progress):
    """A line for each thing that begins, and for each warning once, whoever found it."""

    def __init__(self, tasks: Sequence[Task] = ()) -> None:
        self._left = list(tasks)
        self._planned_s = self._taken_s = _PRIOR_S
        self._began_s = self._task_began_s = monotonic()
        self._said = ""
        self._warned = set[str]()

    def left_s(self) -> float:
        """Return about how many seconds are left."""
        expected_s = sum(task.expected_s for task in self._left)
        left_s = self._taken_s / self._planned_s * expected_s
        return max(left_s - (monotonic() - self._task_began_s), 0.1 * left_s)

    def say(self, text: str) -> None:
        """Print what runs now."""
        if text != self._said:
            self._said = text
            left = f", about {format_duration(self.left_s())} left" if self._left else ""
            took = f"{monotonic() - self._began_s:4.0f} s{left}{spending_in_words()}"
            tell(f"[{took}] {text}")

    def warn(self, text: str) -> None:
        """Print a warning, unless it has been."""
        if text not in self._warned:
            self._warned.add(text)
            tell(f"warning: {text}")

    def finished(self, task: str) -> None:
        """Take a finished task off what is left; one that the plan lacks changes nothing."""
        for planned in self._left:
            if planned.name == task:
                now_s = monotonic()
                self._left.remove(planned)
                self._planned_s += planned.expected_s
                self._taken_s += now_s - self._task_began_s
                self._task_began_s = now_s
                return
