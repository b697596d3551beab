"""What each kind of instance has cost: closed forms, and that items add up to the bill."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.renting.book import (
    UNANSWERED,
    Entries,
    Entry,
    InstanceEnd,
    LaunchIntent,
    LaunchRefusal,
    LaunchResult,
)
from profilers.renting.cap import SpendingItem, bill, items, life_s
from tests.profilers.renting.intents import intent

AT = datetime(2026, 11, 26, tzinfo=UTC)


def launch(
    token: str, node_type: str = "m5.large", zone: str | None = "us-east-1a"
) -> LaunchIntent:
    fields = {"zone": zone, "node_type": node_type, "count": 2}
    return intent(token, **fields, usd_per_hour=0.09, volume_usd_per_hour=0.01, at=AT)


def ended(id_: str, seconds: float) -> InstanceEnd:
    return InstanceEnd(id=id_, seconds=seconds, at=AT)


def test_instances_of_a_kind_are_one_item_whenever_they_were_launched() -> None:
    entries = Entries(
        (
            launch("t0"),
            LaunchResult(token="t0", ids=("i-0", "i-1"), at=AT),
            ended("i-0", 1800.0),
            launch("t1"),
            LaunchResult(token="t1", ids=("i-2", "i-3"), at=AT),
            ended("i-2", 3600.0),
            launch("t2", "p3.2xlarge", None),
            LaunchRefusal(token="t2", code="InsufficientInstanceCapacity", reason="", at=AT),
        )
    )
    (item,) = items(entries)
    assert item == SpendingItem("m5.large", "on_demand", "us-east-1a", 2, 5400.0, item.usd)
    assert item.usd == pytest.approx(0.1 * 5400 / 3600)
    assert item.in_words() == "2 m5.large on demand in us-east-1a: 90.0 min in all, $0.1500"


def test_what_nobody_found_counts_as_paid_in_full() -> None:
    lost = LaunchRefusal(token="t0", code=UNANSWERED, reason="", at=AT)
    one = launch("t0", zone=None)
    (item,) = items(Entries((one, lost)))
    assert (item.place, item.instances) == ("us-east-1", 2)
    assert item.seconds == pytest.approx(2 * life_s(one))


@st.composite
def accounts(draw: st.DrawFn) -> Entries:
    """Return launches of several kinds, of which some were found, ended or given up."""
    entries: list[Entry] = []
    kinds = st.tuples(st.sampled_from(["m5.large", "p3.2xlarge"]), st.sampled_from(["a", None]))
    for place, kind in enumerate(draw(st.lists(kinds, max_size=5))):
        token, found = f"t{place}", draw(st.integers(0, 2))
        entries.append(launch(token, *kind))
        ids = tuple(f"i-{place}{number}" for number in range(found))
        if ids:
            entries.append(LaunchResult(token=token, ids=ids, at=AT))
        entries += [ended(id_, draw(st.floats(0, 4200))) for id_ in ids if draw(st.booleans())]
        if draw(st.booleans()):
            code = draw(st.sampled_from([UNANSWERED, "InstanceLimitExceeded"]))
            entries.append(LaunchRefusal(token=token, code=code, reason="", at=AT))
    return Entries(tuple(entries))


@given(entries=accounts())
def test_items_add_up_to_the_bill(entries: Entries) -> None:
    found = items(entries)
    assert sum(one.usd for one in found) == pytest.approx(bill(entries).spent_usd)
    assert len({(one.node_type, one.market, one.place) for one in found}) == len(found)
