"""Renting: launches within a cap, none of which is forgotten, and an end that is insisted on."""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from profilers import clock
from profilers.renting.book import REFUSED, Book, Entries, Intent
from profilers.renting.cap import Bill, BudgetExceeded, bill, hours_within
from profilers.renting.ending import FIRST_PAUSE_S, MOST_PAUSE_S, Ending
from profilers.renting.provider import NoCapacity, Provider, Unsure
from warehouse.records import Market, ProbeFailed

_TOKEN_BYTES = 16
_ATTEMPTS = 4
END_S = 180.0
"""How long instances are asked to end, again and again, before their ids are told and left."""


@dataclass(frozen=True)
class Place:
    """Where to ask for instances, and what one costs there at most an hour, with its volumes."""

    region: str
    zone: str | None
    node_type: str
    market: Market
    usd_per_hour: float
    volume_usd_per_hour: float = 0.0


@dataclass
class Renter:
    """Rents instances on an account with a cap.

    Attributes:
        provider: of the machines.
        book: of the home.
        owner: this process (`profilers.clusters.owner`).
        home_token: the home's random number, in the tags of all it rents.
        cap_usd: what all launches of the account may cost together.
        account: its name; a new one for each command.
        now: the time, for dates in the book.
        pause: waits so many seconds.
        monotonic: seconds of a clock that nobody can set.
        say: told what happens.
    """

    provider: Provider
    book: Book
    owner: str
    home_token: str
    cap_usd: float
    account: str = field(default_factory=lambda: secrets.token_hex(6))
    now: Callable[[], datetime] = clock.now
    pause: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    say: Callable[[str], None] = lambda _: None

    def launch(self, places: Sequence[Place], count: int, most_hours: float) -> Sequence[str]:
        """Launch instances at the first place that has them; return their ids.

        Args:
            places: in the order in which they are asked.
            count: instances, all at one place.
            most_hours: after which each ends by itself, at the latest.

        Raises:
            BudgetExceeded: the cap does not allow it.
            ProbeFailed: no place has them, or the provider refuses.
        """
        refusals, dear = [], None
        for place in places:
            try:
                intent = self._intended(place, count, most_hours)
                return self._launched(intent)
            except BudgetExceeded as error:
                dear = error
            except NoCapacity as error:
                where = place.zone or place.region
                refusals.append(f"{place.node_type} {place.market} in {where}: {error}")
                self._told(f"no capacity: {refusals[-1]}")
        if dear:
            raise dear
        raise ProbeFailed(
            f"{count} instance(s) cannot be had: {'; '.join(refusals) or 'no place was named'}"
        )

    def end(self, ids: Collection[str], within_s: float = END_S) -> tuple[str, ...]:
        """End instances; ask again until the provider says that they do. Return those left.

        It never raises for what the provider says: others have to be ended too.
        """
        return self._ending.insist(ids, (), within_s)

    def end_all(self, within_s: float = END_S) -> tuple[str, ...]:
        """End whatever this account may have, unanswered launches too; return what is left."""
        return self.settle(self.book.read().of(self.account).intents.values(), within_s)

    def settle(self, intents: Iterable[Intent], within_s: float = END_S) -> tuple[str, ...]:
        """Find what launches brought, and end it; return ids, and tokens, that are left."""
        tokens, entries = {one.token for one in intents}, self.book.read()
        ids = [id_ for id_, one in entries.living.items() if one.token in tokens]
        sought = [one for one in entries.unanswered if one.token in tokens]
        return self._ending.insist(ids, sought, within_s)

    @property
    def bill(self) -> Bill:
        """What the account has cost, and may still cost."""
        return bill(self.book.read().of(self.account))

    @property
    def _ending(self) -> Ending:
        return Ending(self.provider, self.book, self.now, self.pause, self.monotonic, self.say)

    def _intended(self, place: Place, count: int, most_hours: float) -> Intent:
        """Write down a launch that fits into the cap; return it."""
        each = place.usd_per_hour + place.volume_usd_per_hour

        def within(entries: Entries) -> Intent:
            so_far = bill(entries.of(self.account))
            return Intent(
                token=secrets.token_hex(_TOKEN_BYTES),
                owner=self.owner,
                account=self.account,
                region=place.region,
                zone=place.zone,
                node_type=place.node_type,
                market=place.market,
                count=count,
                usd_per_hour=place.usd_per_hour,
                volume_usd_per_hour=place.volume_usd_per_hour,
                hours=hours_within(self.cap_usd, so_far, count, each, most_hours),
                at=self.now(),
            )

        return self.book.intend(within)

    def _launched(self, intent: Intent) -> Sequence[str]:
        """Ask for a launch until there is an answer; the same token launches once.

        A refusal after a question without an answer says nothing of that one, which may have been
        heard. Such a launch stays open, counts in full, and is looked for by its token.
        """
        pause_s, is_sure = FIRST_PAUSE_S, True
        for attempt in range(_ATTEMPTS):
            try:
                ids = self.provider.launch(intent, self.home_token)
            except Unsure as error:
                is_sure = False
                self._told(f"no answer to a launch ({error})")
                if attempt == _ATTEMPTS - 1:
                    raise
            except ProbeFailed as error:
                if is_sure:
                    code = error.code if isinstance(error, NoCapacity) else REFUSED
                    self._ending.refused(intent, code, str(error))
                raise
            else:
                self._ending.noted(intent, ids)
                return ids
            self.pause(pause_s)
            pause_s = min(2 * pause_s, MOST_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    def _told(self, what: str) -> None:
        with suppress(OSError):  # a terminal that is gone must not cost an open launch
            self.say(what)
