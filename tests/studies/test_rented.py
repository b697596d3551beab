"""What was rented lands once: entry by entry, whatever was written meanwhile."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from profilers.renting.book import (
    Book,
    Entry,
    InstanceEnd,
    LaunchIntent,
    LaunchRefusal,
    LaunchResult,
)
from profilers.renting.cap import bill, each_usd, worst_usd
from studies.renting import land_book
from warehouse.landing import landed_runs
from warehouse.warehouse import Warehouse

AT = datetime(2026, 11, 26, 12, tzinfo=UTC)


def intent(token: str, **changed: object) -> LaunchIntent:
    given = {
        "token": token,
        "owner": "stepcast-1-2-0",
        "account": "a",
        "region": "us-east-1",
        "zone": None,
        "node_type": "m5.large",
        "market": "spot",
        "count": 2,
        "usd_per_hour": 0.05,
        "volume_usd_per_hour": 0.01,
        "hours": 1.5,
        "at": AT,
    }
    return LaunchIntent.model_validate({**given, **changed})


ENTRIES: tuple[Entry, ...] = (
    intent("t0", zone="us-east-1a"),
    LaunchRefusal(token="t0", code="InsufficientInstanceCapacity", reason="none left", at=AT),
    intent("t1"),
    LaunchResult(token="t1", ids=("i-1", "i-2"), at=AT),
    InstanceEnd(id="i-1", seconds=1800.0, at=AT + timedelta(minutes=30)),
    intent("t2", account="b", count=1),
)


@pytest.mark.parametrize("first", range(1, len(ENTRIES) + 1))
def test_each_entry_lands_once_and_the_bill_is_the_book_s(first: int, home: Path) -> None:
    book = Book()
    for part in (ENTRIES[:first], ENTRIES[first:]):
        if part:
            book.write(*part)
        land_book(home)
    assert land_book(home) is None
    warehouse = Warehouse(home)
    warehouse.load()
    bills = {row["account"]: row for row in warehouse.query("bill").to_dicts()}
    for account in ("a", "b"):
        expected = bill(book.read().of(account))
        assert bills[account]["spent_usd"] == pytest.approx(expected.spent_usd)
        assert bills[account]["open_usd"] == pytest.approx(expected.open_usd)
    (refused,) = warehouse.query("capacity").to_dicts()
    assert (refused["zone"], refused["reason"]) == ("us-east-1a", "none left")


def test_without_a_book_nothing_lands(home: Path) -> None:
    assert land_book(home) is None
    assert landed_runs(home / "landing") == []


def test_rows_say_what_launches_cost_at_most_and_instances_did(home: Path) -> None:
    Book().write(*ENTRIES)
    run_id = land_book(home)
    rows = pl.read_parquet(home / "landing" / str(run_id) / "rented.parquet")
    assert rows.filter(kind="ended")["usd"].to_list() == [each_usd(intent("t1"), 1800)]
    assert rows.filter(token="t1", kind="intent")["usd"].to_list() == [worst_usd(intent("t1"))]
