"""What a process may rent: closed forms of hours and of what was spent."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.renting.book import Entries, InstanceEnd, LaunchResult
from profilers.renting.cap import (
    BESIDE_S,
    BOOT_HOURS,
    LEAST_HOURS,
    Allowance,
    Bill,
    BudgetExceeded,
    Rate,
    checked_cap,
    current_allowance,
    hours_for,
    spent_usd,
    use_allowance,
)
from profilers.renting.cap import required_allowance as given_allowance
from tests.profilers.renting.intents import intent
from warehouse.records import BadInput

AT = datetime(2026, 11, 26, tzinfo=UTC)
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
    one = Allowance(1.0, {("m5.large", "spot"): Rate(0.1, 0.2, "test")})
    with pytest.raises(BadInput, match="say with --max-usd"):
        given_allowance()
    with use_allowance(one):
        assert given_allowance() is one
        assert one.rate("m5.large", "spot").most_usd_per_hour == 0.2
        with pytest.raises(BadInput, match=r"what m5\.large costs on demand"):
            one.rate("m5.large", "on_demand")
    assert current_allowance() is None


@pytest.mark.parametrize("usd", [0.0, -1.0, float("inf"), float("nan")])
def test_no_such_cap(usd: float) -> None:
    with pytest.raises(BadInput, match="expected US dollars above 0"):
        checked_cap(usd)
