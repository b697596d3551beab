"""Renting from the command line: a cap, a question, what was spent, and an end whatever comes."""

import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.tables import tell
from warehouse.records import Backend, BadInput, StepcastError

if TYPE_CHECKING:
    from profilers.renting.cap import Allowance

MaxUsd = Annotated[
    float | None,
    typer.Option(
        help="What all that is rented may cost at most, US dollars; needed where backend ec2 rents."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Rent without a question.")]


@contextmanager
def renting(
    home: Path,
    max_usd: float | None,
    backend: Backend,
    types: Collection[str],
    estimate: Callable[["Allowance"], str],
    *,
    yes: bool,
) -> Iterator[None]:
    """Ask, let the block rent within a cap, and say what it has cost.

    Args:
        home: its history has prices, and gets what was rented.
        max_usd: the cap; None: none was given.
        backend: where it measures; where nothing is rented, this does nothing.
        types: that may be rented, beside those of the fleet file.
        estimate: returns it in words, at these prices.
        yes: whether to ask nothing.

    Raises:
        BadInput: nobody is there to be asked, or a price is not known.
        StepcastError: the user did not agree.
    """
    from profilers.clusters.fleet import RENTED

    if backend not in RENTED:
        yield
        return
    from profilers.renting.cap import use_allowance
    from studies.renting import allowance

    assert max_usd is not None
    may = allowance(home, max_usd, types, say=_say)
    confirm_spending(estimate(may), yes=yes)
    with use_allowance(may), exit_on_signals():
        try:
            yield
        finally:
            _bill(home, may)


def spending_in_words() -> str:
    """Return what this command has spent so far on machines, for a line of progress."""
    if "profilers.renting.cap" not in sys.modules:
        return ""
    from profilers import clock
    from profilers.renting.cap import current_allowance

    if (may := current_allowance()) is None:
        return ""
    return f", {may.in_words(clock.now())}"


def confirm_spending(text: str, *, yes: bool) -> None:
    """Tell what will be rented, and go on only if the user wants that.

    Raises:
        BadInput: nobody is there to be asked.
        StepcastError: the user does not want it.
    """
    _say(text)
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadInput(
            "nobody is there to be asked whether to rent; --yes rents without a question"
        )
    try:
        wanted = typer.confirm("rent these machines?", err=True)
    except typer.Abort:
        wanted = False
    if not wanted:
        raise StepcastError("nothing was rented")


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """End as by Ctrl-C where this process is to end, or its terminal is gone; not under nohup."""

    def interrupted(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # Dagster has one of its own
        # Who is started in the background ignores Ctrl-C, and ends all the same.
        handler = handler if callable(handler) else signal.default_int_handler
        handler(signal.SIGINT, frame)

    before = {
        number: signal.signal(number, interrupted)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _bill(home: Path, may: "Allowance") -> None:
    """Land what was rented, load it, and say what it cost; never in the way of what failed."""
    from profilers.renting.book import Book
    from profilers.renting.cap import bill
    from studies.renting import land_book
    from warehouse.warehouse import Warehouse

    with suppress(OSError, StepcastError):
        land_book(home)
        Warehouse(home).load()
    entries = Book().read().of(may.account)
    of = bill(entries)
    left = sorted(entries.living)
    _say(
        f"rented for ${of.spent_usd:.2f} of ${may.cap_usd:g} (`stepcast query bill --param "
        f"account={may.account}`)"
    )
    if left or of.open_usd:
        what = ", ".join(left) or "a launch without an answer"
        _say(
            f"NOT ENDED: {what}; at most ${of.open_usd:.2f} more until they end by themselves; "
            "`stepcast reap` tries again"
        )


def _say(text: str) -> None:
    with suppress(OSError):  # a terminal that is gone
        tell(text)
