"""Renting from the command line: a cap, a question, what was spent, and an end whatever comes."""

import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
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
_REFRESH_S = 5.0


@dataclass
class SpendingLimit:
    """What a command may spend, and whether its user has agreed.

    Attributes:
        max_usd: the cap; None: none was given.
        agreed: whether to ask no more.
        account: in the book; none before the first launch is allowed.
    """

    max_usd: float | None = None
    agreed: bool = False
    account: str | None = None

    @contextmanager
    def renting(
        self,
        home: Path,
        backend: Backend,
        types: Collection[str],
        estimate: Callable[["Allowance"], str],
    ) -> Iterator[None]:
        """Ask, let the block rent within the cap, and say what it has cost.

        Args:
            home: its history has prices, and gets what was rented.
            backend: where it measures; where nothing is rented, this does nothing.
            types: that may be rented, beside those of the fleet file.
            estimate: returns it in words, at these prices.

        Raises:
            BadInput: nobody is there to be asked, or a price is not known.
            StepcastError: the user did not agree.
        """
        from profilers.clusters.fleet import RENTED

        if backend not in RENTED:
            yield
            return
        from profilers.renting.cap import use_allowance
        from studies import renting

        assert self.max_usd is not None
        may = renting.allowance(home, self.max_usd, types, self.account, _say)
        self.account = may.account
        confirm_spending(estimate(may), yes=self.agreed)
        self.agreed = True
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

    may = current_allowance()
    if may is None:
        return ""
    at_s, words = _shown.get(may.account, (-_REFRESH_S, ""))
    if time.monotonic() - at_s >= _REFRESH_S:
        words = may.in_words(clock.now())
        _shown[may.account] = time.monotonic(), words
    return f", {words}"


_shown: dict[str, tuple[float, str]] = {}


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
    """End as by Ctrl-C where this process is to end, or its terminal is gone."""

    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    numbers = signal.SIGTERM, signal.SIGHUP
    before = {number: signal.signal(number, interrupted) for number in numbers}
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
