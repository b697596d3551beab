"""An end that is insisted on: what was launched is found and ended, whatever is answered."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from profilers.renting.book import UNANSWERED, Book, Ended, Intent, Launched, Refused
from profilers.renting.cap import life_s
from profilers.renting.provider import Provider, Seen
from warehouse.records import BadInput, ProbeFailed

FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 20.0
KNOWN_S = 120.0
"""So long after a launch a provider knows what it launched; before, it may deny it."""
_RECENT = timedelta(minutes=10)
"""So long it may take at most until a provider has heard of a launch that was written down."""
_SLACK = timedelta(hours=1)
"""Machines take a while to start, and clocks differ."""


@dataclass(frozen=True)
class Ending:
    """Ends instances and finds what launches brought, for a while.

    Nothing that a provider says, no full disk and no closed terminal keeps it from trying the rest.

    Attributes:
        provider: of the machines.
        book: of the home.
        now: the time, for dates in the book.
        pause: waits so many seconds.
        monotonic: seconds of a clock that nobody can set.
        say: told what happens.
    """

    provider: Provider
    book: Book
    now: Callable[[], datetime]
    pause: Callable[[float], None]
    monotonic: Callable[[], float]
    say: Callable[[str], None]

    def insist(
        self, ids: Collection[str], sought: Sequence[Intent], within_s: float
    ) -> tuple[str, ...]:
        """End instances and whatever launches brought; return ids, and tokens, that are left.

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
                found = self._found(intent)
                alive |= {*found} - known
                known |= {*found}
                if len(found) >= intent.count:
                    sought.remove(intent)
                elif asked_s >= self._sought_s(intent):
                    sought.remove(intent)
                    unknown += self._given_up(intent)
            if not (alive or sought) or asked_s >= within_s:
                break
            self.pause(pause_s)
            pause_s = min(2 * pause_s, MOST_PAUSE_S)
        left = *sorted(alive), *unknown, *(one.token for one in sought)
        if alive:
            self._told(f"COULD NOT END {', '.join(sorted(alive))}: they end by themselves in time")
        if tokens := left[len(alive) :]:
            self._told(f"what launches brought is not known yet, ask again: {', '.join(tokens)}")
        return left

    def noted(self, intent: Intent, ids: Sequence[str]) -> None:
        """Write down what a launch brought."""
        self.book.write(Launched(token=intent.token, ids=tuple(ids), at=self.now()))

    def refused(self, intent: Intent, code: str, reason: str) -> None:
        """Write down that a launch brought nothing more."""
        self.book.write(Refused(token=intent.token, code=code, reason=reason[:500], at=self.now()))

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
        ended = {id_: one for id_, one in seen.items() if one.state in ("ending", "ended")}
        # The wall clock alone would not do: what has just been launched may not be known yet.
        for id_ in set(ids) - seen.keys():
            if asked_s >= KNOWN_S and id_ in launches and self._is_over(launches[id_]):
                ended[id_] = Seen(id_, "ended", life_s(launches[id_]))
        with self._on_full_disk():
            self.book.write(
                *(
                    Ended(id=id_, seconds=min(one.seconds, life_s(launches[id_])), at=self.now())
                    for id_, one in ended.items()
                    if id_ in launches
                )
            )
        return set(ended)

    def _found(self, intent: Intent) -> Sequence[str]:
        """Return what of a launch is known to the provider, and write it down."""
        try:
            ids = self.provider.find(intent.token)
        except ProbeFailed as error:
            self._told(f"what launch {intent.token} brought is not known yet: {error}")
            return ()
        if ids:
            with self._on_full_disk():
                self.noted(intent, ids)
        return ids

    def _sought_s(self, intent: Intent) -> float:
        """Return how long more of a launch is looked for at least.

        That is a while where it was just launched, and before it is given up for good. Else one
        look does: the next reaper looks again.
        """
        age = self.now() - intent.at
        is_settled = age > _RECENT and not self._is_over(intent)
        return 0.0 if is_settled else KNOWN_S

    def _given_up(self, intent: Intent) -> list[str]:
        """Close a launch whose time is over, and return nothing; else return its token."""
        if not self._is_over(intent):
            return [intent.token]
        with self._on_full_disk():
            self.refused(intent, UNANSWERED, "nothing has its token, and its time is over")
        return []

    def _is_over(self, intent: Intent) -> bool:
        """Tell whether all that a launch brought has ended by itself, if clocks are right."""
        return self.now() > intent.at + timedelta(seconds=life_s(intent)) + _SLACK

    def _on_full_disk(self) -> AbstractContextManager[None]:
        """Go on where the book cannot be written: what does not end costs more than a lost line."""
        return suppress(BadInput)

    def _told(self, what: str) -> None:
        with suppress(OSError):  # a terminal that is gone must not keep instances running
            self.say(what)
