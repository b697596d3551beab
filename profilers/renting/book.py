"""The book of what was asked for and rented: written, and on disk, before anything is done with it.

A launch is written down with its client token before the provider is asked, so that one whose
answer was lost is found again by the token. What it brought is written down before it is used. A
record is JSON in brackets; one that a full disk or a kill cut short is left out
(`warehouse.durable_files`).
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import AwareDatetime, Field, ValidationError

from profilers.clusters.owner import open_private_file, private_folder
from warehouse.durable_files import Appender, read_whole_records
from warehouse.home import home
from warehouse.records import Market, Record, error_context

FOLDER, FILE = "rented", "book.jsonl"
REFUSED = "refused"
"""Code of a launch that was refused for another reason than a lack of capacity."""
UNANSWERED = "unanswered"
"""Code of a launch that is not looked for any more: it counts as if all of it had been paid."""
RECENT = timedelta(minutes=10)
"""So long it may take at most until a provider has heard of what was written down."""
T = TypeVar("T")


class LaunchIntent(Record):
    """A launch that the provider is about to be asked for.

    Attributes:
        token: the client token; another one for each attempt.
        owner: whose process asks (`profilers.clusters.owner`).
        account: whose cap it counts against.
        region: where.
        zone: where in it; none: the provider chooses.
        node_type: of the instances.
        market: on demand or spot.
        count: of the instances, all or none.
        usd_per_hour: of one, at most: the price, or the highest bid.
        volume_usd_per_hour: of one's volumes.
        hours: after which one ends by itself.
        at: when.
    """

    kind: Literal["intent"] = "intent"
    token: str
    owner: str
    account: str
    region: str
    zone: str | None
    node_type: str
    market: Market
    count: int = Field(ge=1)
    usd_per_hour: float = Field(ge=0, allow_inf_nan=False)
    volume_usd_per_hour: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    hours: float = Field(gt=0, allow_inf_nan=False)
    at: AwareDatetime


class LaunchResult(Record):
    """What a launch brought."""

    kind: Literal["launched"] = "launched"
    token: str
    ids: tuple[str, ...] = Field(min_length=1)
    at: AwareDatetime


class LaunchRefusal(Record):
    """A launch that brought nothing, and why."""

    kind: Literal["refused"] = "refused"
    token: str
    code: str
    reason: str
    at: AwareDatetime


class InstanceEnd(Record):
    """An instance that the provider says has ended, and seconds of it that are paid."""

    kind: Literal["ended"] = "ended"
    id: str
    seconds: float = Field(ge=0, allow_inf_nan=False)
    at: AwareDatetime


class AccessIntent(Record):
    """A key and a security group that the provider is about to be asked for, by their name.

    Attributes:
        token: the name.
        region: where.
        is_made: whether all was answered, so that no more of it can turn up.
        at: when.
    """

    kind: Literal["access"] = "access"
    token: str
    region: str
    is_made: bool = False
    at: AwareDatetime


class AccessEnd(Record):
    """A key and a group that are not there any more."""

    kind: Literal["access_ended"] = "access_ended"
    token: str
    at: AwareDatetime


Entry = LaunchIntent | LaunchResult | LaunchRefusal | InstanceEnd | AccessIntent | AccessEnd
_KINDS: Mapping[str, type[Entry]] = {
    "intent": LaunchIntent,
    "launched": LaunchResult,
    "refused": LaunchRefusal,
    "ended": InstanceEnd,
    "access": AccessIntent,
    "access_ended": AccessEnd,
}
_BEGIN = re.compile(rf'\["(?:{"|".join(_KINDS)})",')


@dataclass(frozen=True)
class Entries:
    """What a book says."""

    all: tuple[Entry, ...]

    @cached_property
    def intents(self) -> Mapping[str, LaunchIntent]:
        """All launches by token."""
        return {entry.token: entry for entry in self.all if isinstance(entry, LaunchIntent)}

    @cached_property
    def launched(self) -> Mapping[str, LaunchResult]:
        """What launches brought, by token: all that was found of each, at one time or another."""
        results: dict[str, LaunchResult] = {}
        for entry in self.all:
            if isinstance(entry, LaunchResult):
                before = results[entry.token].ids if entry.token in results else ()
                ids = tuple(dict.fromkeys((*before, *entry.ids)))
                results[entry.token] = entry.model_copy(update={"ids": ids})
        return results

    @cached_property
    def refused(self) -> Mapping[str, LaunchRefusal]:
        """Launches that brought nothing, by token."""
        return {entry.token: entry for entry in self.all if isinstance(entry, LaunchRefusal)}

    @cached_property
    def ended(self) -> Mapping[str, InstanceEnd]:
        """Instances that have ended, by id."""
        return {entry.id: entry for entry in self.all if isinstance(entry, InstanceEnd)}

    @cached_property
    def accesses(self) -> Mapping[str, AccessIntent]:
        """Keys and groups that have not ended as far as the book says, by name."""
        ended = {entry.token for entry in self.all if isinstance(entry, AccessEnd)}
        asked = (entry for entry in self.all if isinstance(entry, AccessIntent))
        return {entry.token: entry for entry in asked if entry.token not in ended}

    def ids(self, token: str) -> tuple[str, ...]:
        """Return the instances of a launch that are known."""
        return self.launched[token].ids if token in self.launched else ()

    @property
    def unanswered(self) -> tuple[LaunchIntent, ...]:
        """Launches of which nobody knows yet all that they brought."""
        return tuple(
            intent
            for token, intent in self.intents.items()
            if token not in self.refused and len(self.ids(token)) < intent.count
        )

    @cached_property
    def living(self) -> Mapping[str, LaunchIntent]:
        """Instances that have not ended as far as the book says, with their launches."""
        return {
            id_: self.intents[token]
            for token, result in self.launched.items()
            if token in self.intents
            for id_ in result.ids
            if id_ not in self.ended
        }

    def of(self, account: str) -> "Entries":
        """Return what counts against an account's cap."""
        tokens = {token for token, intent in self.intents.items() if intent.account == account}
        ids = {id_ for token in tokens for id_ in self.ids(token)}
        return Entries(
            tuple(
                entry
                for entry in self.all
                if (entry.id in ids if isinstance(entry, InstanceEnd) else entry.token in tokens)
            )
        )


class Book:
    """The book of a home. Several processes may use it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = private_folder(folder or home() / FOLDER) / FILE

    def read(self) -> Entries:
        """Return all entries.

        Raises:
            BadInput: the file cannot be read.
        """
        with error_context(f"{self._path} cannot be read", OSError):
            return Entries(tuple(read_whole_records(self._path, _BEGIN, _entry)))

    def write(self, *entries: Entry) -> None:
        """Append entries, all or none, and force them to disk.

        Raises:
            BadInput: that cannot be done; nothing may be rented then.
        """
        if entries:
            self._locked(lambda: self._append(entries))

    def intend(self, made: Callable[[Entries], LaunchIntent]) -> LaunchIntent:
        """Append the launch that is made of all entries; no other process writes meanwhile.

        Two commands on one account would else both find room for their launch under its cap.

        Raises:
            BadInput: that cannot be done; nothing may be rented then.
        """

        def append() -> LaunchIntent:
            intent = made(self.read())
            self._append([intent])
            return intent

        return self._locked(append)

    def _append(self, entries: Sequence[Entry]) -> None:
        with Appender(self._path) as file:
            file.append([f'["{entry.kind}",{entry.canonical_json()}]' for entry in entries])
            file.sync()

    def _locked(self, change: Callable[[], T]) -> T:
        failure = (
            f"{self._path} cannot be written; free some space, for nothing is rented that is not "
            "written down"
        )
        with error_context(failure, OSError), self._held():
            return change()

    @contextmanager
    def _held(self) -> Iterator[None]:
        descriptor = open_private_file(self._path.with_name("lock"))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _entry(value: object) -> Entry:
    if not (isinstance(value, list) and len(value) == 2 and value[0] in _KINDS):
        raise ValueError("no entry")
    try:
        return _KINDS[value[0]].model_validate(value[1])
    except ValidationError as error:
        raise ValueError(str(error)) from None
