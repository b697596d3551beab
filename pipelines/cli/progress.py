"""Progress on a terminal (a bar) and elsewhere (lines)."""

import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Display
from rich.progress import Task as Row
from rich.table import Column
from rich.text import Text

from assets.progress import LoggedProgress
from pipelines.cli.money import spent
from pipelines.estimate import Estimate, readable
from studies.plan import Task

_REFRESHES_PER_S = 2.0
"""Few: drawing takes processor time from what is measured."""


class _OfCommand(LoggedProgress):
    """What both ways to show it have in common: each warning is printed once.

    Several assets may find the same fault; Dagster's log has it from each of them.
    """

    def __init__(self, estimate: Estimate) -> None:
        self._estimate = estimate
        self._warned: set[str] = set()

    def warn(self, text: str) -> None:
        """Print a warning, unless it has been."""
        super().warn(text)
        if text not in self._warned:
            self._warned.add(text)
            self._print_warning(f"warning: {text}")

    def finished(self, task: str) -> None:
        """Take a finished task off what is left."""
        self._estimate.finish(task)

    @abstractmethod
    def _print_warning(self, line: str) -> None: ...


class Lines(_OfCommand):
    """One line for each thing that begins."""

    def __init__(self, estimate: Estimate, out: TextIO) -> None:
        super().__init__(estimate)
        self._out, self._last = out, ""

    def say(self, text: str) -> None:
        """Print what runs now, how long everything has run, what is left, and what it has cost."""
        super().say(text)
        if text != self._last:
            self._last = text
            left = f", about {readable(left_s)} left" if (left_s := self._estimate.left_s()) else ""
            self._print(f"[{self._estimate.elapsed_s():4.0f} s{left}{spent()}] {text}")

    def _print_warning(self, line: str) -> None:
        self._print(line)

    def _print(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


class Bar(_OfCommand):
    """A bar with what runs now, elapsed time and time left."""

    def __init__(self, estimate: Estimate, display: Display) -> None:
        super().__init__(estimate)
        self._display = display
        self._row = display.add_task("starting", total=1.0)

    def say(self, text: str) -> None:
        """Show what runs now."""
        super().say(text)
        self._display.update(self._row, description=text)

    def _print_warning(self, line: str) -> None:
        self._display.console.print(Text(line, "yellow"))


class _Left(ProgressColumn):
    """Elapsed time, time left and what was spent; also moves the bar, whose length is time."""

    def __init__(self, estimate: Estimate) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._estimate = estimate

    def render(self, task: Row) -> Text:
        """Return both times."""
        elapsed_s, left_s = self._estimate.elapsed_s(), self._estimate.left_s()
        task.completed = elapsed_s / max(elapsed_s + left_s, 1e-9)
        minutes, seconds = divmod(round(elapsed_s), 60)
        left = f", about {readable(left_s)} left" if left_s else ""
        return Text(f"{minutes}:{seconds:02d}{left}{spent()}", "cyan")


@contextmanager
def shown(tasks: Sequence[Task]) -> Iterator[LoggedProgress]:
    """Show progress on stderr until the context ends: a bar on a terminal, elsewhere lines."""
    estimate, console = Estimate(tasks), Console(stderr=True)
    if not console.is_terminal:
        yield Lines(estimate, sys.stderr)
        return
    what = TextColumn(
        "{task.description}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    with Display(
        SpinnerColumn(),
        what,
        BarColumn(bar_width=16),
        _Left(estimate),
        console=console,
        expand=True,
        transient=True,
        refresh_per_second=_REFRESHES_PER_S,
    ) as display:
        yield Bar(estimate, display)
