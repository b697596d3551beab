"""What renting may cost: closed forms, and that whatever is allowed fits into the cap."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.renting.book import (
    UNANSWERED,
    Entries,
    Entry,
    InstanceEnd,
    LaunchRefusal,
    LaunchResult,
)
from profilers.renting.cap import (
    BESIDE_S,
    BOOT_HOURS,
    LEAST_HOURS,
    MINIMUM_BILLED_S,
    Allowance,
    Bill,
    BudgetExceeded,
    Rate,
    bill,
    checked_cap,
    current_allowance,
    each_usd,
    hours_for,
    hours_within,
    spent_usd,
    use_allowance,
    worst_usd,
)
from profilers.renting.cap import required_allowance as given_allowance
from tests.profilers.renting.intents import intent
from warehouse.records import BadInput

AT = datetime(2026, 11, 26, tzinfo=UTC)
ONE = intent(count=3, usd_per_hour=0.9, volume_usd_per_hour=0.3, hours=2.0)
EACH_USD = 1.2 * (2 + BESIDE_S / 3600)
BROUGHT = LaunchResult(token="t0", ids=("i-1", "i-2", "i-3"), at=AT)
HALF_AN_HOUR = InstanceEnd(id="i-1", seconds=1800.0, at=AT)


def test_an_instance_costs_its_seconds_but_a_minute_at_least() -> None:
    assert each_usd(ONE, 3600.0) == pytest.approx(1.2)
    assert each_usd(ONE, 1.0) == each_usd(ONE, MINIMUM_BILLED_S) == pytest.approx(1.2 / 60)


@pytest.mark.parametrize(
    ("entries", "spent_usd", "open_usd"),
    [
        ((ONE,), 0.0, 3 * EACH_USD),
        ((ONE, BROUGHT), 0.0, 3 * EACH_USD),
        ((ONE, BROUGHT, HALF_AN_HOUR), 0.6, 2 * EACH_USD),
        ((ONE, LaunchRefusal(token="t0", code="none", reason="", at=AT)), 0.0, 0.0),
        ((ONE, LaunchRefusal(token="t0", code=UNANSWERED, reason="", at=AT)), 3 * EACH_USD, 0.0),
    ],
)
def test_a_bill_counts_what_may_be_there(
    entries: tuple[Entry, ...], spent_usd: float, open_usd: float
) -> None:
    billed = bill(Entries(entries))
    assert billed.spent_usd == pytest.approx(spent_usd)
    assert billed.open_usd == pytest.approx(open_usd)
    assert worst_usd(ONE) == pytest.approx(3 * EACH_USD)


def test_hours_are_what_is_left_of_the_cap() -> None:
    """$5 of $10 are left: 2.5 hours of two for $1 an hour each, 10 minutes of them beside."""
    hours = hours_within(10.0, Bill(2.0, 3.0), 2, 1.0, 6.0)
    assert hours == pytest.approx(140 / 60)
    assert hours_within(10.0, Bill(0.0, 0.0), 1, 0.01, 6.0) == 6.0
    assert hours_within(10.0, Bill(10.0, 0.0), 1, 0.0, 6.0) == 6.0


def test_a_refusal_says_which_cap_would_do() -> None:
    with pytest.raises(BudgetExceeded) as refused:
        hours_within(0.1, Bill(0.0, 0.0), 1, 1.0, 6.0)
    (max_usd,) = re.findall(r"--max-usd ([\d.]+) would do", str(refused.value))
    assert hours_within(float(max_usd), Bill(0.0, 0.0), 1, 1.0, 6.0) >= LEAST_HOURS


@pytest.mark.parametrize("hourly", [5e-324, 1e-308, 1e-300])
def test_prices_next_to_nothing_are_reckoned_with(hourly: float) -> None:
    assert hours_within(10.0, Bill(1.0, 0.0), 1, hourly, 6.0) == 6.0
    with pytest.raises(BudgetExceeded, match="do not fit"):
        hours_within(1.0, Bill(1e5, 0.0), 1, hourly, 6.0)


@given(
    cap=st.floats(0.01, 1e5),
    spent=st.floats(0, 1e5),
    count=st.integers(1, 64),
    hourly=st.just(0.0) | st.floats(0, 1e-300) | st.floats(1e-6, 1e3),
    most=st.floats(0, 168),
)
def test_whatever_is_allowed_fits(
    cap: float, spent: float, count: int, hourly: float, most: float
) -> None:
    try:
        hours = hours_within(cap, Bill(spent, 0.0), count, hourly, most)
    except BudgetExceeded:
        return
    assert LEAST_HOURS <= hours <= most
    assert hourly == 0 or spent + count * hourly * (hours + BESIDE_S / 3600) <= cap * (1 + 1e-9)


NOTHING = Bill(0.0, 0.0)
INTENT = intent(count=2, usd_per_hour=0.9, volume_usd_per_hour=0.1, hours=2.0)


def test_instances_live_three_times_as_long_as_expected_and_time_to_boot() -> None:
    assert hours_for(100.0, NOTHING, 1.0, 1200.0, 6.0) == pytest.approx(1 + BOOT_HOURS)
    assert hours_for(100.0, NOTHING, 1.0, None, 6.0) == 6.0
    assert hours_for(100.0, NOTHING, 1.0, 20_000.0, 6.0) == 6.0


def test_what_would_end_too_soon_is_not_rented() -> None:
    with pytest.raises(BudgetExceeded, match="raise `most_hours`"):
        hours_for(100.0, NOTHING, 1.0, 6 * 3600.0, 6.0)
    with pytest.raises(BudgetExceeded, match=r"--max-usd 1 lets .* the same command with more"):
        hours_for(1.0, NOTHING, 1.0, 3600.0, 6.0)


@given(
    cap=st.floats(0.01, 1e4),
    spent=st.floats(0, 10),
    hourly=st.floats(1e-3, 1e3),
    expected_s=st.none() | st.floats(0, 1e5),
    most=st.floats(0.1, 168),
)
def test_hours_fit_into_the_cap_and_are_enough(
    cap: float, spent: float, hourly: float, expected_s: float | None, most: float
) -> None:
    try:
        hours = hours_for(cap, Bill(spent, 0.0), hourly, expected_s, most)
    except BudgetExceeded:
        return
    assert spent + hourly * (hours + BESIDE_S / 3600) <= cap * (1 + 1e-9)
    assert hours <= most
    assert hours >= LEAST_HOURS + (expected_s or 0.0) / 3600 - 1 / 60


def test_what_lives_counts_since_its_launch_and_what_ended_as_it_did() -> None:
    launched = LaunchResult(token="t0", ids=("i-1", "i-2"), at=AT)
    ended = InstanceEnd(id="i-1", seconds=1800, at=AT + timedelta(hours=1))
    entries = Entries((INTENT, launched, ended))
    assert spent_usd(entries, AT + timedelta(hours=1)) == pytest.approx(0.5 + 1.0)
    longest = 2 + BESIDE_S / 3600
    assert spent_usd(entries, AT + timedelta(days=9)) == pytest.approx(0.5 + longest)


def test_a_process_may_rent_only_while_it_is_allowed() -> None:
    allowance = Allowance(1.0, {("m5.large", "spot"): Rate(0.1, 0.2, "test")})
    with pytest.raises(BadInput, match="say with --max-usd"):
        given_allowance()
    with use_allowance(allowance):
        assert given_allowance() is allowance
        assert allowance.rate("m5.large", "spot").most_usd_per_hour == 0.2
        with pytest.raises(BadInput, match=r"what m5\.large costs on demand"):
            allowance.rate("m5.large", "on_demand")
    assert current_allowance() is None


@pytest.mark.parametrize("usd", [0.0, -1.0, float("inf"), float("nan")])
def test_no_such_cap(usd: float) -> None:
    with pytest.raises(BadInput, match="expected US dollars above 0"):
        checked_cap(usd)
