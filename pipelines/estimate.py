"""How long is left of a plan, corrected by how long what is finished took, and what runs now takes.

What is left is each task's expected time, times how much slower or quicker than planned tasks of
its kind have been. A task that runs for longer than that is evidence too, from that moment on:
else what is left would stand still as long as it takes.
"""

from collections.abc import Sequence
from time import monotonic

from studies.plan import Task

_PRIOR_S = 30.0
"""How many expected seconds a first guess of a pace weighs against what was seen."""
_OF_OTHERS = 0.5
"""How much of the pace of other kinds is expected of a kind, as a power: a slow host slows all, a
wrong guess of what one probe takes says nothing of the next."""
_OVERDUE = 0.1
"""Of what a task has taken so far, that it takes further, when it should have been over."""
Seen = Sequence[tuple[Task, float]]
"""Tasks, and the seconds that they took."""


class Estimate:
    """Follows a plan. Times are seconds of the clock `now`."""

    def __init__(self, tasks: Sequence[Task], now: float | None = None) -> None:
        self._left = list(tasks)
        self._done: list[tuple[Task, float]] = []
        self._started = self._task_started = monotonic() if now is None else now

    def finish(self, name: str, now: float | None = None) -> None:
        """Note that a task is over; one that the plan lacks changes nothing."""
        now = monotonic() if now is None else now
        for task in self._left:
            if task.name == name:
                self._left.remove(task)
                self._done.append((task, now - self._task_started))
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
        spent_s, (current, *later) = now - self._task_started, self._left
        expected_s = _pace(current.kind, self._done) * current.expected_s
        overdue = [(current, spent_s)] if spent_s > expected_s else []
        seen = [*self._done, *overdue]
        paces = {kind: _pace(kind, seen) for kind in {task.kind for task in later}}
        others_s = sum(paces[task.kind] * task.expected_s for task in later)
        return max(expected_s - spent_s, _OVERDUE * spent_s) + others_s


def _pace(kind: str, seen: Seen) -> float:
    """Return how many seconds a planned second of tasks of a kind takes."""
    ours = [(task.expected_s, real_s) for task, real_s in seen if task.kind == kind]
    others = [(task.expected_s, real_s) for task, real_s in seen if task.kind != kind]
    return _ratio(ours, _ratio(others, 1.0) ** _OF_OTHERS)


def _ratio(seen: Sequence[tuple[float, float]], guess: float) -> float:
    expected_s = sum(one for one, _ in seen)
    real_s = sum(one for _, one in seen)
    return (real_s + guess * _PRIOR_S) / (expected_s + _PRIOR_S)


def readable(seconds: float) -> str:
    """Return a duration as people say it."""
    if seconds < 55:
        return f"{max(5 * round(seconds / 5), 5)} s"
    if seconds < 570:
        minutes, part = divmod(round(seconds / 10) * 10, 60)
        return f"{minutes} min {part} s" if part else f"{minutes} min"
    return f"{round(seconds / 60)} min"
