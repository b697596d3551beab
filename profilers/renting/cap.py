"""What renting may cost, never more than the cap, and what each kind of instance has cost.

Each instance ends by itself after hours that were fixed before it was launched. So what a launch
can cost at most is known before: its price until then, with what is billed before its shutdown is
set and while it shuts down, or the least that is billed, and its volumes. Launches of an account
may cost its cap at most, all together, those that have ended counted as what they did cost. That
the machine's own shutdown works is taken for granted, and verified after it has started.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from profilers.renting.book import UNANSWERED, Entries, LaunchIntent
from warehouse.records import Market, StepcastError

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


# What each kind of instance has cost an account: its bill (`cap.bill`), item by item.


_Kind = tuple[str, Market, str]


@dataclass(frozen=True)
class SpendingItem:
    """What instances of a type, market and place have cost that have ended.

    Attributes:
        node_type: of the instances.
        market: on demand or spot.
        place: the zone; where the provider chose it, the region.
        instances: how many.
        seconds: that are paid, of all together.
        usd: their price and that of their volumes.
    """

    node_type: str
    market: Market
    place: str
    instances: int
    seconds: float
    usd: float

    def in_words(self) -> str:
        """Return it as a line of a bill."""
        what = f"{self.instances} {self.node_type} {self.market.replace('_', ' ')} in {self.place}"
        return f"{what}: {self.seconds / 60:.1f} min in all, ${self.usd:.4f}"


def items(entries: Entries) -> list[SpendingItem]:
    """Return what an account has spent, by type, market and place; they add up to its bill.

    What a launch may have brought and nobody looks for any more counts as paid in full, as there.
    """
    found = sorted(_paid(entries))
    made = []
    for (node_type, market, place), group in groupby(found, key=lambda one: one[0]):
        paid = [(seconds, usd) for _, seconds, usd in group]
        seconds, usd = (sum(column) for column in zip(*paid, strict=True))
        made.append(SpendingItem(node_type, market, place, len(paid), seconds, usd))
    return made


def _paid(entries: Entries) -> Iterator[tuple[_Kind, float, float]]:
    for token, intent in entries.intents.items():
        ids, refused = entries.ids(token), entries.refused.get(token)
        lives = [entries.ended[id_].seconds for id_ in ids if id_ in entries.ended]
        if refused is not None and refused.code == UNANSWERED:
            lives += [life_s(intent)] * max(0, intent.count - len(ids))
        for seconds in lives:
            yield _kind(intent), seconds, each_usd(intent, seconds)


def _kind(intent: LaunchIntent) -> _Kind:
    return intent.node_type, intent.market, intent.zone or intent.region
