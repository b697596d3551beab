"""Renting within a cap, from a provider: no launch is forgotten, and an end is insisted on."""

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol

from profilers import clock
from profilers.clusters.fleet import Launch
from profilers.renting.book import (
    RECENT,
    REFUSED,
    UNANSWERED,
    Book,
    Entries,
    InstanceEnd,
    LaunchIntent,
    LaunchRefusal,
    LaunchResult,
)
from profilers.renting.cap import Allowance, Bill, BudgetExceeded, bill, hours_within, life_s
from warehouse.records import BadInput, Market, ProbeFailed

FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 20.0
KNOWN_S = 120.0
"""So long after a launch a provider knows what it launched; before, it may deny it."""
_SLACK = timedelta(hours=1)
"""Machines take a while to start, and clocks differ."""
_TOKEN_BYTES = 16
_ATTEMPTS = 4
END_S = 180.0
"""How long instances are asked to end, again and again, before their ids are told and left."""


InstanceState = Literal["pending", "running", "ending", "ended"]


class NoCapacity(ProbeFailed):
    """The provider has no such machine there now; it may have one elsewhere."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OutcomeUnknown(ProbeFailed):
    """The provider did not answer; nobody knows whether it did what was asked."""


@dataclass(frozen=True)
class InstanceStatus:
    """An instance as its provider tells it.

    Attributes:
        id: its name there.
        state: what it does; ending and ended ones cost nothing any more.
        seconds: that are paid, by the provider's clock, which may round them up, not down;
            infinite where it does not say.
        private: address by which others reach it; none before it runs.
        public: the same from outside.
    """

    id: str
    state: InstanceState
    seconds: float = 0.0
    private: str | None = None
    public: str | None = None


class Provider(Protocol):
    """Machines for money."""

    def launch(self, intent: LaunchIntent, owner_token: str) -> Sequence[str]:
        """Launch what an intent says; return the ids. The same token launches once.

        Raises:
            NoCapacity: there is none.
            ProbeFailed: it is refused for another reason.
            OutcomeUnknown: there was no answer.
        """

    def find(self, token: str) -> Sequence[str]:
        """Return the ids that a client token launched, whatever their state.

        For a while after a launch there may be too few.

        Raises:
            ProbeFailed: there was no answer.
        """

    def seen(self, ids: Collection[str]) -> Mapping[str, InstanceStatus]:
        """Return the instances of these ids that the provider knows.

        Raises:
            ProbeFailed: there was no answer.
        """

    def terminate(self, ids: Collection[str]) -> None:
        """Ask the provider to end instances; one that has ended is fine.

        Raises:
            ProbeFailed: there was no answer, or it refuses.
        """


@dataclass(frozen=True)
class LaunchPlace:
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

    def launch(self, places: Sequence[LaunchPlace], count: int, most_hours: float) -> Sequence[str]:
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
        return self._insist(ids, (), within_s)

    def settle(self, intents: Iterable[LaunchIntent], within_s: float = END_S) -> tuple[str, ...]:
        """Find what launches brought, and end it; return ids, and tokens, that are left."""
        tokens, entries = {intent.token for intent in intents}, self.book.read()
        ids = [id_ for id_, intent in entries.living.items() if intent.token in tokens]
        sought = [intent for intent in entries.unanswered if intent.token in tokens]
        return self._insist(ids, sought, within_s)

    @property
    def bill(self) -> Bill:
        """What the account has cost, and may still cost."""
        return bill(self.book.read().of(self.account))

    def _intended(self, place: LaunchPlace, count: int, most_hours: float) -> LaunchIntent:
        """Write down a launch that fits into the cap; return it."""
        each = place.usd_per_hour + place.volume_usd_per_hour

        def within(entries: Entries) -> LaunchIntent:
            so_far = bill(entries.of(self.account))
            return LaunchIntent(
                token=secrets.token_hex(_TOKEN_BYTES),
                owner=self.owner,
                account=self.account,
                **asdict(place),
                count=count,
                hours=hours_within(self.cap_usd, so_far, count, each, most_hours),
                at=self.now(),
            )

        return self.book.intend(within)

    def _launched(self, intent: LaunchIntent) -> Sequence[str]:
        """Ask for a launch until there is an answer; the same token launches once.

        A refusal after a question without an answer says nothing of that one, which may have been
        heard. Such a launch stays open, counts in full, and is looked for by its token.
        """
        pause_s, is_sure = FIRST_PAUSE_S, True
        for attempt in range(_ATTEMPTS):
            try:
                ids = self.provider.launch(intent, self.home_token)
            except OutcomeUnknown as error:
                is_sure = False
                self._told(f"no answer to a launch ({error})")
                if attempt == _ATTEMPTS - 1:
                    raise
            except ProbeFailed as error:
                if is_sure:
                    code = error.code if isinstance(error, NoCapacity) else REFUSED
                    self._note_refusal(intent, code, str(error))
                raise
            else:
                self._note(intent, ids)
                return ids
            self.pause(pause_s)
            pause_s = min(2 * pause_s, MOST_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    def _insist(
        self, ids: Collection[str], sought: Sequence[LaunchIntent], within_s: float
    ) -> tuple[str, ...]:
        """End instances and whatever launches brought; return ids, and tokens, that are left.

        Nothing that a provider says, no full disk and no closed terminal keeps it from trying the
        rest.

        Args:
            ids: instances.
            sought: launches of which more may be found.
            within_s: how long it is tried, again and again.
        """
        alive, sought, known = set(ids), list(sought), set(ids)
        begun_s, pause_s = self.monotonic(), FIRST_PAUSE_S
        unknown: list[str] = []
        while True:
            asked_s = self.monotonic() - begun_s
            if alive:
                alive -= self._ended(alive, asked_s)
            for intent in tuple(sought):
                launched_ids = self._found(intent)
                alive |= {*launched_ids} - known
                known |= {*launched_ids}
                if len(launched_ids) >= intent.count:
                    sought.remove(intent)
                elif asked_s >= self._sought_s(intent):
                    sought.remove(intent)
                    unknown += self._given_up(intent)
            if not (alive or sought) or asked_s >= within_s:
                break
            self.pause(pause_s)
            pause_s = min(2 * pause_s, MOST_PAUSE_S)
        left = *sorted(alive), *unknown, *(intent.token for intent in sought)
        if alive:
            self._told(f"COULD NOT END {', '.join(sorted(alive))}: they end by themselves in time")
        if tokens := left[len(alive) :]:
            self._told(f"what launches brought is not known yet, ask again: {', '.join(tokens)}")
        return left

    def _note(self, intent: LaunchIntent, ids: Sequence[str]) -> None:
        """Write down what a launch brought."""
        self.book.write(LaunchResult(token=intent.token, ids=tuple(ids), at=self.now()))

    def _note_refusal(self, intent: LaunchIntent, code: str, reason: str) -> None:
        """Write down that a launch brought nothing more."""
        self.book.write(
            LaunchRefusal(token=intent.token, code=code, reason=reason[:500], at=self.now())
        )

    def _ended(self, ids: Collection[str], asked_s: float) -> set[str]:
        """Ask once for the end of instances; return those that end, and write them down."""
        try:
            self.provider.terminate(ids)
        except ProbeFailed as error:
            self._told(f"instances do not end yet: {error}")
        try:
            seen = self.provider.seen(ids)
        except ProbeFailed as error:
            self._told(f"nobody knows yet whether instances end: {error}")
            return set()
        launches = self.book.read().living
        ended = {
            id_: instance for id_, instance in seen.items() if instance.state in ("ending", "ended")
        }
        # The wall clock alone would not do: what has just been launched may not be known yet.
        for id_ in set(ids) - seen.keys():
            if asked_s >= KNOWN_S and id_ in launches and self._is_over(launches[id_]):
                ended[id_] = InstanceStatus(id_, "ended", life_s(launches[id_]))
        # On a full disk go on: what does not end costs more than a lost line.
        with suppress(BadInput):
            self.book.write(
                *(
                    InstanceEnd(
                        id=id_, seconds=min(instance.seconds, life_s(launches[id_])), at=self.now()
                    )
                    for id_, instance in ended.items()
                    if id_ in launches
                )
            )
        return set(ended)

    def _found(self, intent: LaunchIntent) -> Sequence[str]:
        """Return what of a launch is known to the provider, and write it down."""
        try:
            ids = self.provider.find(intent.token)
        except ProbeFailed as error:
            self._told(f"what launch {intent.token} brought is not known yet: {error}")
            return ()
        if ids:
            with suppress(BadInput):
                self._note(intent, ids)
        return ids

    def _sought_s(self, intent: LaunchIntent) -> float:
        """Return how long more of a launch is looked for at least.

        That is a while where it was just launched, and before it is given up for good. Else one
        look does: the next reaper looks again.
        """
        age = self.now() - intent.at
        is_settled = age > RECENT and not self._is_over(intent)
        return 0.0 if is_settled else KNOWN_S

    def _given_up(self, intent: LaunchIntent) -> list[str]:
        """Close a launch whose time is over, and return nothing; else return its token."""
        if not self._is_over(intent):
            return [intent.token]
        with suppress(BadInput):
            self._note_refusal(intent, UNANSWERED, "nothing has its token, and its time is over")
        return []

    def _is_over(self, intent: LaunchIntent) -> bool:
        """Tell whether all that a launch brought has ended by itself, if clocks are right."""
        return self.now() > intent.at + timedelta(seconds=life_s(intent)) + _SLACK

    def _told(self, what: str) -> None:
        with suppress(OSError):  # a terminal that is gone must not cost an open launch
            self.say(what)


# Where instances are asked for, in which order, and what they cost there.


def launch_places(
    node_type: str, market: Market, how: Launch, allowance: Allowance
) -> list[LaunchPlace]:
    """Return the places of a node type: the zones of the fleet file, in its order.

    Raises:
        BadInput: nobody knows the price.
    """
    rate, volume_usd = allowance.rate(node_type, market), how.volume.usd_per_hour
    return [
        LaunchPlace(how.region, zone, node_type, market, rate.most_usd_per_hour, volume_usd)
        for zone in how.places
    ]


def hourly_usd(places: Sequence[LaunchPlace]) -> float:
    """Return what an instance costs an hour at the dearest of some places, with its volumes."""
    return max(place.usd_per_hour + place.volume_usd_per_hour for place in places)
