"""Progress on a terminal (a bar) and elsewhere (lines), and how long is left."""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Display
from rich.progress import Task as Row
from rich.table import Column
from rich.text import Text

from pipelines.cli.money import spending_in_words
from pipelines.cli.tables import format_duration
from studies.messages import Progress
from studies.plan import Task

# What is left is the expected time of what is planned, times how much slower than planned tasks
# were so far. A task that runs for longer than that is evidence too, from that moment on: else
# what is left would stand still as long as it takes.


_PRIOR_S = 30.0
"""How many expected seconds a first guess of the pace weighs against what was seen."""
_OVERDUE = 0.1
"""Of what a task has taken so far, that it takes further, when it should have been over."""


class TimeEstimate:
    """Follows a plan. Times are seconds of the clock `now`."""

    def __init__(self, tasks: Sequence[Task], now: float | None = None) -> None:
        self._left = list(tasks)
        self._planned_s = self._taken_s = _PRIOR_S
        self._started = self._task_started = monotonic() if now is None else now

    def finish(self, name: str, now: float | None = None) -> None:
        """Note that a task is over; one that the plan lacks changes nothing."""
        now = monotonic() if now is None else now
        for task in self._left:
            if task.name == name:
                self._left.remove(task)
                self._planned_s += task.expected_s
                self._taken_s += now - self._task_started
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
        pace = self._taken_s / self._planned_s
        expected_s = pace * current.expected_s
        if spent_s > expected_s:
            pace = (self._taken_s + spent_s) / (self._planned_s + current.expected_s)
        others_s = pace * sum(task.expected_s for task in later)
        return max(expected_s - spent_s, _OVERDUE * spent_s) + others_s


_REFRESHES_PER_S = 2.0
"""Few: drawing takes processor time from what is measured."""


class _CommandProgress(Progress):
    """What both ways to show it have in common: each warning is printed once, whoever found it."""

    def __init__(self, estimate: TimeEstimate) -> None:
        self._estimate = estimate
        self._warned: set[str] = set()

    def warn(self, text: str) -> None:
        """Print a warning, unless it has been."""
        if text not in self._warned:
            self._warned.add(text)
            self._print_warning(f"warning: {text}")

    def finished(self, task: str) -> None:
        """Take a finished task off what is left."""
        self._estimate.finish(task)

    @abstractmethod
    def _print_warning(self, line: str) -> None: ...


class LineProgress(_CommandProgress):
    """One line for each thing that begins."""

    def __init__(self, estimate: TimeEstimate, out: TextIO) -> None:
        super().__init__(estimate)
        self._out, self._last = out, ""

    def say(self, text: str) -> None:
        """Print what runs now, how long everything has run, what is left, and what it has cost."""
        if text != self._last:
            self._last = text
            left = (
                f", about {format_duration(left_s)} left"
                if (left_s := self._estimate.left_s())
                else ""
            )
            self._print(f"[{self._estimate.elapsed_s():4.0f} s{left}{spending_in_words()}] {text}")

    def _print_warning(self, line: str) -> None:
        self._print(line)

    def _print(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


class BarProgress(_CommandProgress):
    """A bar with what runs now, elapsed time and time left."""

    def __init__(self, estimate: TimeEstimate, display: Display) -> None:
        super().__init__(estimate)
        self._display = display
        self._row = display.add_task("starting", total=1.0)

    def say(self, text: str) -> None:
        """Show what runs now."""
        self._display.update(self._row, description=text)

    def _print_warning(self, line: str) -> None:
        self._display.console.print(Text(line, "yellow"))


class _TimeLeftColumn(ProgressColumn):
    """Elapsed time, time left and what was spent; also moves the bar, whose length is time."""

    def __init__(self, estimate: TimeEstimate) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._estimate = estimate

    def render(self, task: Row) -> Text:
        """Return both times."""
        elapsed_s, left_s = self._estimate.elapsed_s(), self._estimate.left_s()
        task.completed = elapsed_s / max(elapsed_s + left_s, 1e-9)
        minutes, seconds = divmod(round(elapsed_s), 60)
        left = f", about {format_duration(left_s)} left" if left_s else ""
        return Text(f"{minutes}:{seconds:02d}{left}{spending_in_words()}", "cyan")


@contextmanager
def show_progress(tasks: Sequence[Task]) -> Iterator[Progress]:
    """Show progress on stderr until the context ends: a bar on a terminal, elsewhere lines."""
    estimate, console = TimeEstimate(tasks), Console(stderr=True)
    if not console.is_terminal:
        yield LineProgress(estimate, sys.stderr)
        return
    what = TextColumn(
        "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    with Display(
        SpinnerColumn(),
        what,
        BarColumn(bar_width=16),
        _TimeLeftColumn(estimate),
        console=console,
        expand=True,
        transient=True,
        refresh_per_second=_REFRESHES_PER_S,
    ) as display:
        yield BarProgress(estimate, display)
