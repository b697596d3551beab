"""A made-up region of EC2, for tests of what rents there; its instances are at most one sshd."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from profilers.clusters import owner
from profilers.clusters.fleet import Launch
from profilers.renting import aws
from profilers.renting.book import Book, LaunchIntent
from profilers.renting.renter import InstanceStatus, NoCapacity
from profilers.steady.hostlock import holder
from warehouse.records import ProbeFailed


@dataclass
class World:
    """A region. Its instances are at one address, and an sshd if `folder` is that of one."""

    folder: Path | None = None
    full: frozenset[str] = frozenset()
    console_says: str | None = None
    will_not_end: bool = False
    states: dict[str, str] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    volumes: str | None = None
    owners: dict[str, str] = field(default_factory=dict)
    distinct: bool = False
    lock_held_by: set[str] = field(default_factory=set)
    accesses: set[str] = field(default_factory=set)
    """Names of keys and groups that are there."""
    how: Launch | None = None

    def launch(self, intent: LaunchIntent, owner_token: str) -> Sequence[str]:
        assert owner_token == owner.token()
        assert intent in Book().read().unanswered
        self.asked.append(intent)
        self.lock_held_by.add(holder())
        if self.full & {intent.zone, intent.node_type}:
            raise NoCapacity("InsufficientInstanceCapacity", "none left")
        ids = [f"i-{len(self.states) + number}" for number in range(intent.count)]
        self.states |= dict.fromkeys(ids, "running")
        if self.folder is not None:
            key = (self.folder / "sshd-127.0.0.2/hostkey.pub").read_text().rsplit(" ", 1)[0]
            self.console_says = self.console_says or f"{aws.MARKER} {intent.token} {key}\n"
            ends_us = (int(time.time()) + 60 * aws.minutes(intent)) * 1_000_000
            scheduled = self.folder / "m0/scheduled"
            if not scheduled.exists():
                scheduled.write_text(f"USEC={ends_us}\nWARN_WALL=1\nMODE=poweroff\n")
        return ids

    def find(self, token: str) -> Sequence[str]:
        return ()

    def seen(self, ids: Collection[str]) -> Mapping[str, InstanceStatus]:
        return {
            id_: InstanceStatus(id_, self.states[id_], 90.0, self._address(id_))  # type: ignore[arg-type]
            for id_ in ids
            if id_ in self.states
        }

    def terminate(self, ids: Collection[str]) -> None:
        self.asked.append(sorted(ids))
        if self.will_not_end:
            raise ProbeFailed("RequestLimitExceeded")
        self.states |= dict.fromkeys(ids, "ending")

    def console(self, id_: str) -> str:
        return self.console_says or ""

    def tagged(self, home_token: str) -> Mapping[str, str]:
        return {id_: name for id_, name in self.owners.items() if id_ in self.alive}

    def import_key(self, name: str, public_key: str, home_token: str) -> None:
        assert name in Book().read().accesses
        self.accesses.add(name)

    def make_group(self, name: str, subnet: str, caller: str, home_token: str) -> str:
        assert name in Book().read().accesses
        self.accesses.add(name)
        return f"sg-{caller}"

    def remove_access(self, name: str) -> None:
        if self.alive and name in self.accesses:
            raise ProbeFailed("DependencyViolation: the group has a node")
        self.accesses.discard(name)

    def tagged_access(self, home_token: str) -> set[str]:
        return set(self.accesses)

    def _address(self, id_: str) -> str:
        return f"10.0.0.{id_.removeprefix('i-')}" if self.distinct else "127.0.0.2"

    def check_volumes(self, ids: Collection[str]) -> None:
        if self.volumes is not None:
            raise ProbeFailed(self.volumes)

    @property
    def alive(self) -> list[str]:
        return [id_ for id_, state in self.states.items() if state == "running"]
