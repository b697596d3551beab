"""What renting may cost, never more than the cap, and what each kind of instance has cost.

Each instance ends by itself after hours that were fixed before it was launched. So what a launch
can cost at most is known before: its price until then, with what is billed before its shutdown is
set and while it shuts down, or the least that is billed, and its volumes. Launches of an account
may cost its cap at most, all together, those that have ended counted as what they did cost. That
the machine's own shutdown works is taken for granted, and verified after it has started.

An allowance is what this process may rent and for how much: whoever asked the user gives it,
clusters take it.
"""

import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from profilers.renting.book import UNANSWERED, Book, Entries, LaunchIntent
from warehouse.records import BadInput, Market, StepcastError

MINIMUM_BILLED_S = 60.0
"""EC2 bills Linux by the second, the first minute whole (EC2 pricing, "per-second billing")."""
BESIDE_S = 600.0
"""What is billed of an instance beside the hours of its shutdown, at most: it starts and stops."""
LEAST_HOURS = 0.1
"""Nothing is rented that would have to end sooner."""


class BudgetExceeded(StepcastError):
    """The cap does not allow what comes next; what runs goes on, and what has landed stays."""

    exit_code = 2


@dataclass(frozen=True)
class Bill:
    """What an account has cost, and what it may still cost at most.

    Attributes:
        spent_usd: of instances that have ended.
        open_usd: what those that may live will have cost when they end by themselves.
    """

    spent_usd: float
    open_usd: float

    @property
    def worst_usd(self) -> float:
        """What all of it will have cost at most."""
        return self.spent_usd + self.open_usd


def each_usd(intent: LaunchIntent, seconds: float) -> float:
    """Return what one instance of a launch costs that lives for so long."""
    hours = max(seconds, MINIMUM_BILLED_S) / 3600
    return hours * (intent.usd_per_hour + intent.volume_usd_per_hour)


def life_s(intent: LaunchIntent) -> float:
    """Return after how many billed seconds an instance has ended by itself."""
    return 3600 * intent.hours + BESIDE_S


def worst_usd(intent: LaunchIntent) -> float:
    """Return what a launch costs at most."""
    return intent.count * each_usd(intent, life_s(intent))


def bill(entries: Entries) -> Bill:
    """Return the bill of an account's entries.

    What a launch may have brought and nobody has found counts as if it were there.
    """
    spent = open_ = 0.0
    for token, intent in entries.intents.items():
        refused, ids = entries.refused.get(token), entries.ids(token)
        each = each_usd(intent, life_s(intent))
        for id_ in ids:
            ended = entries.ended.get(id_)
            open_ += each if ended is None else 0.0
            spent += 0.0 if ended is None else each_usd(intent, ended.seconds)
        not_found = each * max(0, intent.count - len(ids))
        if refused is None:
            open_ += not_found
        elif refused.code == UNANSWERED:
            spent += not_found
    return Bill(spent, open_)


def hours_within(
    cap_usd: float, so_far: Bill, count: int, usd_per_hour: float, most_hours: float
) -> float:
    """Return the whole minutes after which so many instances must shut down, in hours.

    Args:
        cap_usd: what all of the account may cost.
        so_far: its bill.
        count: instances.
        usd_per_hour: of one and its volumes.
        most_hours: after which they would if money were no matter.

    Raises:
        BudgetExceeded: less than `LEAST_HOURS`.
    """
    left_usd = cap_usd - so_far.worst_usd
    each_hour = count * usd_per_hour
    hours = most_hours
    if each_hour:
        hours = min(hours, left_usd / each_hour - BESIDE_S / 3600)
    # A price near 0 makes a quotient that is beyond all floats, and no whole number.
    hours = math.floor(60 * hours) / 60 if math.isfinite(hours) else 0.0
    if hours < LEAST_HOURS:
        needed = so_far.worst_usd + (LEAST_HOURS + 1 / 60 + BESIDE_S / 3600) * each_hour
        raise BudgetExceeded(
            f"{count} instance(s) for ${each_hour:.4g} an hour do not fit into --max-usd "
            f"{cap_usd:g}: ${so_far.spent_usd:.4g} are spent, what runs may cost "
            f"${so_far.open_usd:.4g} more until it ends by itself, and nothing is rented for less "
            f"than {60 * LEAST_HOURS:g} minutes; --max-usd {_up(needed):g} would do"
        )
    return hours


def _up(usd: float) -> float:
    """Return dollars rounded up to a cent."""
    return -(-usd * 100 // 1) / 100


VARIABLE = "STEPCAST_MAX_USD"
"""The cap of each run that Dagster starts by itself."""
BOOT_HOURS = 0.25
"""That instances may take to come up, and to be given back."""
MARGIN = 3.0
"""How many times longer than expected a measurement may take before its instances end."""


@dataclass(frozen=True)
class Rate:
    """What an instance costs an hour.

    Attributes:
        usd_per_hour: what it is expected to cost.
        most_usd_per_hour: what is paid at most: the highest bid; on demand, the price.
        source: where that was read.
    """

    usd_per_hour: float
    most_usd_per_hour: float
    source: str


@dataclass(frozen=True)
class Allowance:
    """What a command may rent.

    Attributes:
        cap_usd: what all of it may cost together, at most, whatever happens.
        rates: prices by node type and market.
        account: whose cap it is, in the book; a new one for each command.
        say: told what happens to what is rented.
    """

    cap_usd: float
    rates: Mapping[tuple[str, Market], Rate]
    account: str = field(default_factory=lambda: secrets.token_hex(6))
    say: Callable[[str], None] = lambda _: None

    def rate(self, node_type: str, market: Market) -> Rate:
        """Return the price of a node type.

        Raises:
            BadInput: nobody knows it; nothing is rented then.
        """
        if (node_type, market) not in self.rates:
            raise BadInput(
                f"nobody knows what {node_type} costs {market.replace('_', ' ')}, so nothing is "
                f"rented; `stepcast prices collect --type {node_type}` asks AWS"
            )
        return self.rates[node_type, market]

    def in_words(self, now: datetime) -> str:
        """Return what has been spent so far, of how much."""
        return f"${spent_usd(Book().read().of(self.account), now):.2f} of ${self.cap_usd:g}"


_given: list[Allowance] = []


@contextmanager
def use_allowance(allowance: Allowance) -> Iterator[Allowance]:
    """Let clusters of this process rent within an allowance, while the block runs."""
    _given.append(allowance)
    try:
        yield allowance
    finally:
        _given.remove(allowance)


def current_allowance() -> Allowance | None:
    """Return what this process may rent; None: nothing."""
    return _given[-1] if _given else None


def required_allowance() -> Allowance:
    """Return what this process may rent.

    Raises:
        BadInput: nobody said how much that may cost.
    """
    if not _given:
        raise BadInput(
            "backend ec2 rents machines: say with --max-usd what they may cost at most, all "
            f"together (runs that Dagster starts: {VARIABLE}, or --max-usd of the fleet's member)"
        )
    return _given[-1]


def checked_cap(usd: float, where: str = "--max-usd") -> float:
    """Return an amount that may be a cap.

    Raises:
        BadInput: it is not finite, or not above 0.
    """
    if not 0 < usd < float("inf"):
        raise BadInput(f"{where}: expected US dollars above 0, found {usd:g}")
    return usd


def spent_usd(entries: Entries, now: datetime) -> float:
    """Return what an account has cost until now: what lives counts since it was launched."""
    total = bill(entries).spent_usd
    for intent in entries.living.values():
        since = entries.launched[intent.token].at
        lived_s = max((now - since).total_seconds(), 0.0)
        total += each_usd(intent, min(lived_s, life_s(intent)))
    return total


def hours_for(
    cap_usd: float, so_far: Bill, hourly_usd: float, expected_s: float | None, most_hours: float
) -> float:
    """Return after how many hours instances end by themselves that are launched together.

    Args:
        cap_usd: what all of the account may cost.
        so_far: its bill.
        hourly_usd: of all of them, with their volumes.
        expected_s: for how long they are needed; None: nobody knows.
        most_hours: that they may live, however long they are needed.

    Raises:
        BudgetExceeded: they would end before what they are needed for is expected to be done.
    """
    needed = LEAST_HOURS + (expected_s or 0.0) / 3600
    if needed > most_hours:
        raise BudgetExceeded(
            f"what comes next needs its instances for about {60 * needed:.0f} min, and they end "
            f"after {60 * most_hours:.0f}; raise `most_hours` in the fleet file"
        )
    wanted = most_hours
    if expected_s is not None:
        wanted = min(most_hours, MARGIN * expected_s / 3600 + BOOT_HOURS)
    hours = hours_within(cap_usd, so_far, 1, hourly_usd, wanted)
    # Whole minutes: what is needed to the second may be one less.
    if hours < needed - 1 / 60:
        raise BudgetExceeded(
            f"--max-usd {cap_usd:g} lets instances for ${hourly_usd:.4g} an hour run for "
            f"{60 * hours:.0f} min more, and what comes next takes about {60 * needed:.0f}; the "
            "same command with more goes on"
        )
    return hours
