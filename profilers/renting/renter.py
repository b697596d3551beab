"""Renting: launches within a cap, none of which is forgotten, and an end that is insisted on."""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from profilers import clock
from profilers.renting.book import Book, Ended, Intent, Launched, Refused
from profilers.renting.cap import Bill, bill, hours_within
from profilers.renting.provider import NoCapacity, Provider, Seen, Unsure
from warehouse.records import Market, ProbeFailed

_TOKEN_BYTES = 16
_ATTEMPTS = 4
_SLACK_HOURS = 1.0
"""Machines take a while to start, and to shut down."""
_FIRST_PAUSE_S, _MOST_PAUSE_S = 1.0, 20.0
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
        refusals = []
        for place in places:
            intent = self._intent(place, count, most_hours)
            self.book.write(intent)
            try:
                return self._launched(intent)
            except NoCapacity as error:
                self._refused(intent, error.code, str(error))
                where = place.zone or place.region
                refusals.append(f"{place.node_type} {place.market} in {where}: {error}")
                self.say(f"no capacity: {refusals[-1]}")
        raise ProbeFailed(
            f"{count} instance(s) cannot be had: {'; '.join(refusals) or 'no place was named'}"
        )

    def end(self, ids: Collection[str], within_s: float = END_S) -> tuple[str, ...]:
        """End instances; ask again until the provider says that they do. Return those that it did not.

        It never raises for what the provider says: others have to be ended too.
        """
        left, deadline_s, pause_s = set(ids), self.monotonic() + within_s, _FIRST_PAUSE_S
        while left:
            try:
                self.provider.terminate(left)
            except ProbeFailed as error:
                self.say(f"instances do not end yet: {error}")
            left -= self._ended(left)
            if not left or self.monotonic() >= deadline_s:
                break
            self.pause(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)
        if left:
            self.say(f"COULD NOT END {', '.join(sorted(left))}: they end by themselves in time")
        return tuple(sorted(left))

    def end_all(self) -> tuple[str, ...]:
        """End whatever this account may have, launches without an answer too; return what is left."""
        return self.settle(self.book.read().of(self.account).intents.values())

    def settle(self, intents: Iterable[Intent]) -> tuple[str, ...]:
        """Find what launches brought, and end it; return ids, or tokens, that are left."""
        left: list[str] = []
        entries = self.book.read()
        ids = []
        for intent in intents:
            if intent.token in entries.refused:
                continue
            brought = entries.launched.get(intent.token)
            try:
                ids += brought.ids if brought else self._found(intent)
            except ProbeFailed as error:
                self.say(f"what launch {intent.token} brought is not known yet: {error}")
                left.append(intent.token)
        return (*left, *self.end([one for one in ids if one not in entries.ended]))

    @property
    def bill(self) -> Bill:
        """What the account has cost, and may still cost."""
        return bill(self.book.read().of(self.account))

    def _intent(self, place: Place, count: int, most_hours: float) -> Intent:
        each = place.usd_per_hour + place.volume_usd_per_hour
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
            hours=hours_within(self.cap_usd, self.bill, count, each, most_hours),
            at=self.now(),
        )

    def _launched(self, intent: Intent) -> Sequence[str]:
        """Ask for a launch until there is an answer; the same token launches once."""
        pause_s = _FIRST_PAUSE_S
        for attempt in range(_ATTEMPTS):
            try:
                ids = self.provider.launch(intent, self.home_token)
            except NoCapacity:
                raise
            except Unsure as error:
                self.say(f"no answer to a launch ({error}); it is asked for again")
                if attempt == _ATTEMPTS - 1:
                    raise
                self.pause(pause_s)
                pause_s = min(2 * pause_s, _MOST_PAUSE_S)
            except ProbeFailed as error:
                self._refused(intent, "refused", str(error))
                raise
            else:
                return self._noted(intent, ids)
        raise AssertionError("the last attempt returns or raises")

    def _found(self, intent: Intent) -> Sequence[str]:
        """Return what a launch brought whose answer was lost, and write that down.

        Nothing may be found of what has just been launched. So a launch of which nothing is found
        stays open until all it could have brought has ended by itself.
        """
        if ids := self.provider.find(intent.token):
            return self._noted(intent, ids)
        if self._is_over(intent):
            self._refused(intent, "unanswered", "nothing has its token, and its time is over")
            return ()
        raise ProbeFailed("nothing that has its token is known to the provider now")

    def _noted(self, intent: Intent, ids: Sequence[str]) -> Sequence[str]:
        self.book.write(Launched(token=intent.token, ids=tuple(ids), at=self.now()))
        return ids

    def _refused(self, intent: Intent, code: str, reason: str) -> None:
        self.book.write(Refused(token=intent.token, code=code, reason=reason[:500], at=self.now()))

    def _ended(self, ids: Collection[str]) -> set[str]:
        """Return those that the provider says end, and write them down."""
        try:
            seen = self.provider.seen(ids)
        except ProbeFailed as error:
            self.say(f"nobody knows yet whether instances end: {error}")
            return set()
        ended = [one for one in seen.values() if one.state in ("ending", "ended")]
        # What has just been launched may not be known yet: it has not ended before its time is over.
        living = self.book.read().living
        over = [id_ for id_ in ids if id_ not in seen and self._is_over(living[id_])]
        unknown = [Seen(id_, "ended", self._life_s(id_)) for id_ in over]
        entries = [
            Ended(id=one.id, seconds=min(one.seconds, self._life_s(one.id)), at=self.now())
            for one in (*ended, *unknown)
        ]
        if entries:
            self.book.write(*entries)
        return {one.id for one in entries}

    def _is_over(self, intent: Intent) -> bool:
        """Tell whether whatever a launch brought has ended by itself."""
        return self.now() > intent.at + timedelta(hours=intent.hours + _SLACK_HOURS)

    def _life_s(self, id_: str) -> float:
        """Return after how many seconds an instance has ended by itself."""
        intent = self.book.read().living.get(id_)
        return 3600 * intent.hours if intent else 0.0
