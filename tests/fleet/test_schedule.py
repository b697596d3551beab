"""Whether a visit is due, and what visits took."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.members import Every
from fleet.schedule import (
    VISITS_A_MONTH,
    last_probe,
    next_period_start,
    period_start,
    probes,
    visits,
    watches,
)
from studies.plan import tasks
from tests.fleet.made import NODE_TYPE, NOW, SUNDAY, TONIGHT, member, visited, watched
from warehouse.records import Run

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NEXT = SUNDAY + 7 * DAY
BEFORE = SUNDAY - 3 * DAY
MONDAY = SUNDAY + DAY
WEEKLY = member()


of_weekly = partial(visited, WEEKLY)
failed = partial(of_weekly, status="failed", error="no")
DUE: dict[str, tuple[Sequence[Run], datetime | None, bool, str]] = {
    "never done": ([], None, True, "never done"),
    "done this week": (of_weekly(SUNDAY), None, False, "done"),
    "done last week": (of_weekly(BEFORE), None, True, "last done 2030-01-10 02:03"),
    "begun last week, ended in this one": (of_weekly(SUNDAY - MINUTE), None, False, "done"),
    "interrupted": (of_weekly(SUNDAY, 1, "links"), None, True, "unfinished"),
    "interrupted last week": (of_weekly(BEFORE, 1, "links", each_s=3600), None, True, "unfinished"),
    "interrupted, its minutes spent": (
        *(of_weekly(SUNDAY, 1, "links", each_s=20 * 60), None),
        *(False, "unfinished: its minutes are spent"),
    ),
    "interrupted, too few minutes for the next run": (
        *(of_weekly(SUNDAY, 1, "links", each_s=20 * 60 - 10), None),
        *(False, "unfinished: its minutes are spent"),
    ),
    "the visit before took all minutes of this one": (
        [*of_weekly(SUNDAY, each_s=400), *of_weekly(MONDAY, 2, "links")],
        *(None, True, "unfinished"),
    ),
    "failed": (failed(SUNDAY, 1, "links"), None, False, "failed"),
    "failed last week": (failed(BEFORE, 1, "links"), None, True, "never done"),
    "failed, and was done by hand": (
        [*failed(SUNDAY, 1, "links"), *of_weekly(MONDAY)],
        *(None, False, "done"),
    ),
    "changed since": (of_weekly(SUNDAY), MONDAY, True, "it has drifted"),
    "changed before": (of_weekly(MONDAY), SUNDAY, False, "done"),
    "changed, and failed since": (
        [*of_weekly(SUNDAY), *failed(MONDAY + HOUR, 2, "links")],
        *(MONDAY, False, "failed"),
    ),
}


@pytest.mark.parametrize(("runs", "drifted_at", "is_due", "why"), DUE.values(), ids=DUE.keys())
def test_a_visit_is_due(
    runs: Sequence[Run], drifted_at: datetime | None, is_due: bool, why: str
) -> None:
    due = visits(WEEKLY, runs).due(NOW, drifted_at)
    assert (due.now, due.why) == (is_due, why)
    assert due.next == (NOW if is_due else NEXT)
    paused = visits(member(paused=True), runs).due(NOW, drifted_at)
    assert (paused.now, paused.why, paused.next) == (False, "paused", NEXT)


def test_a_watch_is_due_each_night_whatever_the_visits_are() -> None:
    of = member(every="month")
    yesterday = watches(of, [*visited(of, SUNDAY), *watched(of, TONIGHT - DAY)])
    assert yesterday.due(NOW).why == "last done 2030-01-15 02:01"
    done = watches(of, watched(of, TONIGHT))
    assert (done.due(NOW).now, done.due(NOW).next) == (False, TONIGHT + DAY)


def test_a_visit_goes_on_where_it_stopped_and_the_next_begins_anew() -> None:
    first = visited(WEEKLY, SUNDAY, 1, "links", "contention")
    begun = visits(WEEKLY, first)
    assert (begun.round_.repeat, [need.probe for need in begun.round_.missing]) == (1, ["tf_trace"])
    assert (begun.done, begun.last_began, begun.last_ended) == ((), None, None)
    whole = visits(WEEKLY, visited(WEEKLY, SUNDAY))
    assert (whole.round_.repeat, whole.round_.runs) == (2, ())
    assert len(whole.round_.missing) == 3
    assert (whole.last_began, whole.last_ended) == (SUNDAY, SUNDAY + 3 * MINUTE)


def test_runs_are_in_order_of_their_starts() -> None:
    both = [*visited(WEEKLY, BEFORE), *visited(WEEKLY, SUNDAY, 2)]
    under_way = visited(WEEKLY, MONDAY, 3, "links")
    history = visits(WEEKLY, [*under_way, *both])
    assert history.runs == (*both, *under_way)


def test_what_a_visit_takes_is_what_the_last_one_took() -> None:
    planned = visits(WEEKLY, [])
    assert planned.expected_s == sum(task.expected_s for task in tasks(planned.round_)) > 0
    twice = visits(WEEKLY, [*visited(WEEKLY, BEFORE), *visited(WEEKLY, SUNDAY, 2, each_s=100)])
    assert twice.expected_s == 300
    assert twice.month_s == pytest.approx(300 * VISITS_A_MONTH["week"])
    half = visits(WEEKLY, [*visited(WEEKLY, BEFORE), *visited(WEEKLY, SUNDAY, 2, "links")])
    assert half.expected_s == 180, "not what a visit took that was interrupted"


@pytest.mark.parametrize(
    "changed",
    [
        {"backend": "emulated"},
        {"host_id": "another"},
        {"study": "fleet.emu.native.c15"},
        {"study": f"watch.{NODE_TYPE}"},
    ],
)
def test_runs_of_others_are_no_visits(changed: dict[str, object]) -> None:
    assert visits(WEEKLY, visited(WEEKLY, SUNDAY, **changed)).runs == ()  # type: ignore[arg-type]


def test_the_last_probe_is_the_last_that_went_well() -> None:
    well = watched(WEEKLY, SUNDAY)
    failed = watched(WEEKLY, MONDAY, 2, status="failed", error="no")
    judge = [run.model_copy(update={"probe": "drift", "run_id": "judge"}) for run in well]
    assert probes([*well, *judge, *failed]) == well
    assert last_probe([*well, *judge, *failed]) == well[0]
    assert last_probe(failed) is None


CADENCES: tuple[Every, ...] = get_args(Every)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))
times_of_day = st.times().map(lambda moment: f"{moment:%H:%M}")
cadences = st.sampled_from(CADENCES)


def on(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("every", "now", "began", "then"),
    [
        ("hour", "2030-01-16T12:34:56", "2030-01-16T12:00", "2030-01-16T13:00"),
        ("hour", "2030-12-31T23:00", "2030-12-31T23:00", "2031-01-01T00:00"),
        ("night", "2030-03-01T02:29", "2030-02-28T02:30", "2030-03-01T02:30"),
        ("week", "2030-01-13T02:29", "2030-01-06T02:30", "2030-01-13T02:30"),
        ("week", "2030-01-13T02:30", "2030-01-13T02:30", "2030-01-20T02:30"),
        ("month", "2030-03-01T02:29", "2030-02-01T02:30", "2030-03-01T02:30"),
        ("month", "2028-02-29T12:00", "2028-02-01T02:30", "2028-03-01T02:30"),
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


@pytest.mark.parametrize("every", CADENCES)
def test_a_mean_month_has_as_many_visits_as_four_hundred_years_have(every: Every) -> None:
    """The calendar repeats after 400 years of 146 097 days."""
    first, last = on("2000-01-01"), on("2400-01-01")
    each = {"hour": timedelta(hours=1), "night": timedelta(days=1), "week": timedelta(days=7)}
    turns = (last - first) / each[every] if every in each else 400 * 12
    assert VISITS_A_MONTH[every] == pytest.approx(turns / (400 * 12))
