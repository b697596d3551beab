"""Prices of what is rented: as observed in its region, else as printed; caps are mandatory."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from profilers.renting.book import Book, Entry, InstanceEnd, LaunchRefusal, LaunchResult
from profilers.renting.cap import bill, each_usd, worst_usd
from studies.price_collection import collect
from studies.renting import check_capped, land_book, rates
from tests.aws import Aws
from tests.profilers.renting.intents import intent as launch_intent
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse


def test_observed_prices_of_the_region_count_and_bids_go_up_to_on_demand(
    home: Path, aws: Aws
) -> None:
    warehouse = Warehouse(home)
    collect(warehouse, ["us-east-1", "eu-west-1"], ["p3.2xlarge", "m5.large"], days=30)
    prices = rates(warehouse, "us-east-1", ["p3.2xlarge", "m5.large"])
    assert prices["p3.2xlarge", "on_demand"].usd_per_hour == 3.06
    spot = prices["p3.2xlarge", "spot"]
    assert (spot.usd_per_hour, spot.most_usd_per_hour) == (1.021, 3.06)
    assert prices["m5.large", "spot"] == prices["m5.large", "on_demand"]


def test_what_nobody_observed_costs_what_a_paper_prints(home: Path) -> None:
    """The catalogue has p3.2xlarge for $3.06 an hour."""
    prices = rates(Warehouse(home), "us-east-1", ["p3.2xlarge", "no.such"])
    assert prices["p3.2xlarge", "on_demand"].usd_per_hour == 3.06
    assert ("no.such", "on_demand") not in prices


@pytest.mark.parametrize(
    ("max_usd", "backend", "why"),
    [
        (None, "ec2", "say with --max-usd"),
        (0.0, "ec2", "expected US dollars above 0"),
        (float("inf"), "ec2", "expected US dollars above 0"),
        (1.0, "emulated", "rents nothing"),
    ],
)
def test_a_cap_is_given_where_something_is_rented_and_only_there(
    max_usd: float | None, backend: str, why: str
) -> None:
    with pytest.raises(BadInput, match=why):
        check_capped(backend, max_usd)  # type: ignore[arg-type]
    check_capped("ec2", 1.0)
    check_capped("emulated", None)


AT = datetime(2026, 11, 26, 12, tzinfo=UTC)
intent = partial(
    launch_intent,
    owner="stepcast-1-2-0",
    market="spot",
    count=2,
    usd_per_hour=0.05,
    volume_usd_per_hour=0.01,
    hours=1.5,
    at=AT,
)
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


def test_rows_say_what_launches_cost_at_most_and_instances_did(home: Path) -> None:
    Book().write(*ENTRIES)
    run_id = land_book(home)
    rows = pl.read_parquet(home / "landing" / str(run_id) / "rented.parquet")
    assert rows.filter(kind="ended")["usd"].to_list() == [each_usd(intent("t1"), 1800)]
    assert rows.filter(token="t1", kind="intent")["usd"].to_list() == [worst_usd(intent("t1"))]
