"""Ending what dead processes of a home have left: instances, keys and groups."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from profilers.clusters import owner
from profilers.renting.access import AccessProvider, close_accesses
from profilers.renting.book import FOLDER, Book, LaunchIntent
from profilers.renting.renter import END_S, Provider, Renter
from warehouse.records import ProbeFailed

BEFORE_S = 30.0
"""How long a new cluster tries to end what dead ones left, before it goes on."""


class TaggingProvider(Provider, AccessProvider, Protocol):
    """A provider that finds instances, keys and groups by their tags."""

    def tagged(self, home_token: str) -> Mapping[str, str]:
        """Return a home's living instances by id, with the owner that their tags name."""

    def tagged_access(self, home_token: str) -> set[str]:
        """Return the names of keys and groups that a home has made."""


ProviderOf = Callable[[str], TaggingProvider]
"""The provider of a region."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class ReapReport:
    """What was ended, and what is left: ids, tokens of launches, names of keys and groups."""

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def dead_launches(book: Book) -> tuple[LaunchIntent, ...]:
    """Return launches of dead processes of this home that may have brought what still lives."""
    entries = book.read()
    open_ = {intent.token: intent for intent in (*entries.unanswered, *entries.living.values())}
    return tuple(intent for intent in open_.values() if owner.is_orphan(f"{intent.owner}-"))


def settle_dead(
    book: Book, provider_of: ProviderOf, say: Say, within_s: float = BEFORE_S
) -> ReapReport:
    """End what the book says that dead processes left; where it says nothing, ask nobody."""
    launches = dead_launches(book)
    left: list[str] = []
    before = book.read().ended.keys()
    for region in dict.fromkeys(launch.region for launch in launches):
        renter = _renter(provider_of(region), book, say)
        left += renter.settle([launch for launch in launches if launch.region == region], within_s)
    ended = sorted(book.read().ended.keys() - before)
    accesses = book.read().accesses.values()
    dead = [access for access in accesses if owner.is_orphan(f"{access.token}-")]
    for region in dict.fromkeys(access.region for access in dead):
        names = [access.token for access in dead if access.region == region]
        kept = close_accesses(provider_of(region), book, names, say, within_s)
        left += kept
        ended += sorted({*names} - {*kept})
    return ReapReport(tuple(ended), tuple(left))


def settle_home(home: Path, say: Say) -> ReapReport:
    """End what the book of a home says that dead processes left, wherever that is."""
    if not (home / FOLDER).exists():
        return ReapReport()
    from profilers.renting.aws import Ec2  # boto3 takes half a second to import

    return settle_dead(Book(home / FOLDER), Ec2, say)


def reap(
    book: Book, regions: Collection[str], provider_of: ProviderOf, say: Say, within_s: float = END_S
) -> ReapReport:
    """End what dead processes left: by the book, then in these regions by tags.

    A region that cannot be asked takes no other with it; its name is among what is left.
    """
    by_book = settle_dead(book, provider_of, say, within_s)
    ended, left = list(by_book.ended), list(by_book.left)
    for region in regions:
        try:
            tagged = provider_of(region).tagged(owner.token())
            names = provider_of(region).tagged_access(owner.token())
        except ProbeFailed as error:
            say(f"nobody knows what lives in {region}: {error}")
            left.append(region)
            continue
        ids = {id_ for id_, name in tagged.items() if owner.is_orphan(f"{name}-")} - {*left}
        kept = _renter(provider_of(region), book, say).end(ids, within_s)
        orphans = {name for name in names if owner.is_orphan(f"{name}-")} - {*left}
        open_ = close_accesses(provider_of(region), book, orphans, say, within_s)
        ended += [*sorted(ids - {*kept}), *sorted(orphans - {*open_})]
        left += [*kept, *open_]
    return ReapReport(tuple(ended), tuple(left))


def _renter(provider: Provider, book: Book, say: Say) -> Renter:
    """Return what ends instances, and can rent none."""
    return Renter(provider, book, owner="", home_token="", cap_usd=0.0, say=say)
