"""What each kind of instance has cost an account: its bill (`cap.bill`), item by item."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from profilers.renting.book import UNANSWERED, Entries, Intent
from profilers.renting.cap import each_usd, life_s
from warehouse.records import Market

_Kind = tuple[str, Market, str]


@dataclass(frozen=True)
class Item:
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


def items(entries: Entries) -> list[Item]:
    """Return what an account has spent, by type, market and place; they add up to its bill.

    What a launch may have brought and nobody looks for any more counts as paid in full, as there.
    """
    found = sorted(_paid(entries))
    made = []
    for (node_type, market, place), group in groupby(found, key=lambda one: one[0]):
        paid = [(seconds, usd) for _, seconds, usd in group]
        seconds, usd = (sum(column) for column in zip(*paid, strict=True))
        made.append(Item(node_type, market, place, len(paid), seconds, usd))
    return made


def _paid(entries: Entries) -> Iterator[tuple[_Kind, float, float]]:
    for token, intent in entries.intents.items():
        ids, refused = entries.ids(token), entries.refused.get(token)
        lives = [entries.ended[id_].seconds for id_ in ids if id_ in entries.ended]
        if refused is not None and refused.code == UNANSWERED:
            lives += [life_s(intent)] * max(0, intent.count - len(ids))
        for seconds in lives:
            yield _kind(intent), seconds, each_usd(intent, seconds)


def _kind(intent: Intent) -> _Kind:
    return intent.node_type, intent.market, intent.zone or intent.region
