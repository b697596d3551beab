"""When something is due by the calendar: worked dates, and what holds at any time."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.members import Every
from fleet.schedule import VISITS_A_MONTH, month_of, next_period_start, period_start

CADENCES: tuple[Every, ...] = get_args(Every)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))
times_of_day = st.times().map(lambda one: f"{one:%H:%M}")
cadences = st.sampled_from(CADENCES)


def on(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("every", "now", "began", "then"),
    [
        ("hour", "2030-01-16T12:34:56", "2030-01-16T12:00", "2030-01-16T13:00"),
        ("hour", "2030-12-31T23:00", "2030-12-31T23:00", "2031-01-01T00:00"),
        ("night", "2030-01-16T12:00", "2030-01-16T02:30", "2030-01-17T02:30"),
        ("night", "2030-03-01T02:29", "2030-02-28T02:30", "2030-03-01T02:30"),
        ("week", "2030-01-16T12:00", "2030-01-13T02:30", "2030-01-20T02:30"),
        ("week", "2030-01-13T02:29", "2030-01-06T02:30", "2030-01-13T02:30"),
        ("week", "2030-01-13T02:30", "2030-01-13T02:30", "2030-01-20T02:30"),
        ("month", "2030-01-31T12:00", "2030-01-01T02:30", "2030-02-01T02:30"),
        ("month", "2030-03-01T02:29", "2030-02-01T02:30", "2030-03-01T02:30"),
        ("month", "2028-02-29T12:00", "2028-02-01T02:30", "2028-03-01T02:30"),
        ("month", "2030-01-01T00:00", "2029-12-01T02:30", "2030-01-01T02:30"),
    ],
)
def test_turns_begin_and_end_by_the_calendar(every: Every, now: str, began: str, then: str) -> None:
    assert period_start(every, "02:30", on(now)) == on(began)
    assert next_period_start(every, "02:30", on(now)) == on(then)


@given(cadences, times_of_day, moments)
def test_now_is_between_the_beginning_and_the_next_one(
    every: Every, at: str, now: datetime
) -> None:
    began, then = period_start(every, at, now), next_period_start(every, at, now)
    assert began <= now < then
    assert period_start(every, at, began) == began
    assert period_start(every, at, then) == then
    assert period_start(every, at, then - timedelta(microseconds=1)) == began


@given(times_of_day, moments)
def test_weeks_begin_on_sundays_and_months_on_their_first(at: str, now: datetime) -> None:
    assert f"{period_start('week', at, now):%A %H:%M}" == f"Sunday {at}"
    assert f"{period_start('month', at, now):%d %H:%M}" == f"01 {at}"


@given(moments)
def test_a_month_is_that_of_the_date(now: datetime) -> None:
    assert f"{month_of(now):%Y-%m-%d %H:%M:%S.%f}" == f"{now:%Y-%m}-01 00:00:00.000000"


@pytest.mark.parametrize("every", CADENCES)
def test_a_mean_month_has_as_many_visits_as_four_hundred_years_have(every: Every) -> None:
    """The calendar repeats after 400 years of 146 097 days."""
    first, last = on("2000-01-01"), on("2400-01-01")
    each = {"hour": timedelta(hours=1), "night": timedelta(days=1), "week": timedelta(days=7)}
    turns = (last - first) / each[every] if every in each else 400 * 12
    assert VISITS_A_MONTH[every] == pytest.approx(turns / (400 * 12))
