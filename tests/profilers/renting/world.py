"""A provider of machines in virtual time, whose answers get lost and whose clocks are set.

The world knows what is true: what lives, and what it costs. The book of a home is only told.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from profilers.renting.book import FILE, Book, Entries, Entry, LaunchIntent
from profilers.renting.cap import bill
from profilers.renting.renter import (
    InstanceState,
    InstanceStatus,
    LaunchPlace,
    NoCapacity,
    OutcomeUnknown,
    Renter,
)
from warehouse.records import ProbeFailed

PLACES = (
    LaunchPlace("us-east-1", "us-east-1a", "p3.2xlarge", "spot", 1.0),
    LaunchPlace("us-east-1", "us-east-1b", "p3.2xlarge", "on_demand", 3.06, 0.02),
    LaunchPlace("us-east-1", None, "p3.8xlarge", "on_demand", 12.24, 0.02),
)
ACCOUNT = "lab"
FAULTS = ("fine", "before", "after", "late", "half", "refused", "throttled", "full", "slow")
"""What may become of a call: nothing lost; the question; the answer; both, and it is done later;
it is done in part; it is refused; a limit refuses it; no capacity; it takes two minutes."""
_BEGIN = datetime(2026, 11, 26, tzinfo=UTC)
_BOOT_S, _STOP_S = (20.0, 400.0), (5.0, 150.0)
"""From a launch to the moment that sets the shutdown; from there, after its hours, to the end."""
_SHOWN_S = (0.0, 3.0, 50.0)
_LATE_S = 45.0
_STALE_S = 15.0
_PURGED_S = 3600.0
_LEAST_BILLED_S = 60.0


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Instance:
    """What is true of an instance; times are the world's seconds."""

    id: str
    intent: LaunchIntent
    price: float
    born_s: float
    shown_s: float
    own_end_s: float
    asked_end_s: float = float("inf")

    @property
    def end_s(self) -> float:
        """When it ends."""
        return min(self.own_end_s, self.asked_end_s)

    def usd(self, until_s: float) -> float:
        """Return what it has cost by then: by the second, the first minute whole."""
        billed_s = max(min(self.end_s, until_s) - self.born_s, _LEAST_BILLED_S)
        return self.price * billed_s / 3600


@dataclass
class World:
    """The provider, its clock, and what may go wrong with it.

    Attributes:
        folder: of the book.
        cap_usd: of the account.
        faults: of the next calls, in their order; later ones are fine.
        kill_in: how many points from here the process is killed at; none: it is not.
        full_writes: how many of the next writes find the disk full.
        set_s: what the wall clock was set by.
        at_s: what has passed.
    """

    folder: Path
    cap_usd: float
    faults: list[str] = field(default_factory=list)
    kill_in: int | None = None
    full_writes: int = 0
    set_s: float = 0.0
    at_s: float = 0.0
    instances: dict[str, Instance] = field(default_factory=dict)
    asked: dict[str, LaunchIntent] = field(default_factory=dict)
    calls: int = 0
    points: int = 0
    _serial: count = field(default_factory=count)

    def now(self) -> datetime:
        """Return the date by the wall clock."""
        return _BEGIN + timedelta(seconds=self.at_s + self.set_s)

    def pass_(self, seconds: float) -> None:
        """Let time pass."""
        self.at_s += seconds

    def point(self) -> None:
        """Pass a moment at which the process may be killed."""
        self.points += 1
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                self.kill_in = None
                raise Killed

    def renter(self, *, silent: bool = True) -> Renter:
        """Return what a new process has; its terminal may be gone."""

        def say(_: str) -> None:
            if not silent:
                raise BrokenPipeError

        return Renter(
            provider=self,
            book=WatchedBook(self),
            owner="stepcast-0-0-0",
            home_token="0" * 12,
            cap_usd=self.cap_usd,
            account=ACCOUNT,
            now=self.now,
            pause=self.pass_,
            monotonic=lambda: self.at_s,
            say=say,
        )

    # What the provider is asked.

    def launch(self, intent: LaunchIntent, owner_token: str) -> Sequence[str]:
        """Launch instances, once for each token."""
        entries = self.read()
        assert entries.intents.get(intent.token) == intent, "asked before it was on disk"
        assert intent.token not in entries.refused
        assert self.asked.setdefault(intent.token, intent) == intent, "a token of another launch"
        fault = self._begun()
        if fault == "before":
            raise OutcomeUnknown("the question was lost")
        if intent.token not in self._tokens():
            if fault == "full":
                raise NoCapacity("InsufficientInstanceCapacity", "there is none")
            if fault in ("refused", "throttled"):
                raise ProbeFailed("You are not authorized to perform this operation")
            self._make(intent, _LATE_S if fault == "late" else 0.0)
        elif fault in ("full", "refused", "throttled"):
            raise ProbeFailed("RequestExpired")
        self.point()
        if fault in ("after", "late", "half"):
            raise OutcomeUnknown("the answer was lost")
        return [
            instance.id
            for instance in self.instances.values()
            if instance.intent.token == intent.token
        ]

    def find(self, token: str) -> Sequence[str]:
        """Return the instances of a token that are shown by now."""
        self._answered()
        launched = (
            instance for instance in self.instances.values() if instance.intent.token == token
        )
        return [instance.id for instance in launched if self._is_shown(instance)]

    def seen(self, ids: Collection[str]) -> Mapping[str, InstanceStatus]:
        """Return what is told of instances, which may be what was true a while ago."""
        self._answered()
        return {
            id_: InstanceStatus(
                id_, self._state(instance), min(instance.end_s, self.at_s) - instance.born_s
            )
            for id_, instance in self.instances.items()
            if id_ in ids and self._is_shown(instance)
        }

    def terminate(self, ids: Collection[str]) -> None:
        """End instances."""
        fault = self._begun()
        if fault in ("before", "refused", "throttled"):
            raise ProbeFailed("RequestLimitExceeded")
        known = [instance for instance in self.instances.values() if instance.id in ids]
        if fault == "half":
            known = known[: len(known) // 2]
        if fault != "full":  # answered, and not done
            for instance in known:
                instance.asked_end_s = min(instance.asked_end_s, max(self.at_s, instance.born_s))
        self.point()
        if fault in ("after", "late", "half"):
            raise ProbeFailed("the answer was lost")

    # What is true.

    def read(self) -> Entries:
        """Return what is on disk."""
        return Book(self.folder).read()

    def alive(self) -> list[Instance]:
        """Return what lives, or will without being asked for again."""
        return [instance for instance in self.instances.values() if instance.end_s > self.at_s]

    def shown(self) -> list[str]:
        """Return the ids of what the provider knows of by now, living or not."""
        return [instance.id for instance in self.instances.values() if self._is_shown(instance)]

    def usd(self, until_s: float = float("inf")) -> float:
        """Return what everything costs by then; by default: in the end, if nothing is ended."""
        return sum(instance.usd(until_s) for instance in self.instances.values())

    def check(self) -> None:
        """Check what must hold at every moment."""
        entries = self.read()
        billed = bill(entries.of(ACCOUNT))
        assert self.usd(self.at_s) <= self.usd() <= billed.worst_usd + 1e-9 <= self.cap_usd + 2e-9
        tokens = [entry.token for entry in entries.all if entry.kind == "intent"]
        assert len(tokens) == len(set(tokens))
        for instance in self.alive():
            assert instance.intent.token in entries.intents, f"{instance.id} is not known"
            assert instance.intent.token not in entries.refused, (
                f"{instance.id} counts as never launched"
            )
            assert instance.id not in entries.ended, f"{instance.id} counts as ended"

    def _begun(self) -> str:
        self.point()
        self.calls += 1
        fault = self.faults.pop(0) if self.faults else "fine"
        self.pass_(120.0 if fault == "slow" else 0.5)
        return fault

    def _answered(self) -> None:
        if self._begun() not in ("fine", "slow", "full"):
            raise ProbeFailed("there was no answer")

    def _make(self, intent: LaunchIntent, late_s: float) -> None:
        for _ in range(intent.count):
            serial = next(self._serial)
            born_s = self.at_s + late_s
            boot_s, stop_s = _BOOT_S[serial % 2], _STOP_S[serial // 2 % 2]
            id_ = f"i-{serial:08x}"
            self.instances[id_] = Instance(
                id=id_,
                intent=intent,
                price=intent.usd_per_hour * (1.0, 0.6)[serial % 2] + intent.volume_usd_per_hour,
                born_s=born_s,
                shown_s=born_s + _SHOWN_S[serial % 3],
                own_end_s=born_s + boot_s + 3600 * intent.hours + stop_s,
            )

    def _tokens(self) -> set[str]:
        return {instance.intent.token for instance in self.instances.values()}

    def _is_shown(self, instance: Instance) -> bool:
        return instance.shown_s <= self.at_s <= instance.end_s + _PURGED_S

    def _state(self, instance: Instance) -> InstanceState:
        return "ending" if self.at_s >= instance.end_s + _STALE_S else "running"


class WatchedBook(Book):
    """A book at each write of which the process may be killed, and the disk may be full."""

    def __init__(self, world: World) -> None:
        super().__init__(world.folder)
        self._world = world

    def _append(self, entries: Sequence[Entry]) -> None:
        if self._world.full_writes:
            self._world.full_writes -= 1
            raise OSError(28, "No space left on device")
        self._world.point()
        try:
            self._world.point()
        except Killed:
            with (self._world.folder / FILE).open("a") as file:
                file.write(f'["{entries[0].kind}",{entries[0].canonical_json()}]'[:60])
            raise
        super()._append(entries)
        self._world.point()
