"""The fleet on one screen."""

from datetime import timedelta
from pathlib import Path

import pytest

from fleet.members import Member
from fleet.page import status, usd
from fleet.schedule import FleetHistory, items, visits
from tests.fleet.made import NODE_TYPE, NOW, SUNDAY, member, visited, watched
from warehouse.records import Run

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def shown(home: Path, *members: Member, runs: tuple[Run, ...] = ()) -> list[dict[str, object]]:
    ordered = tuple(sorted(runs, key=lambda run: run.started_at))
    return status(items(members, FleetHistory(ordered, {}, frozenset()), NOW), home, NOW).to_dicts()


def test_a_new_member_has_nothing_yet(home: Path) -> None:
    assert shown(home, member(), member("emu.native.c15", watched=False, paused=True)) == [
        {
            "node_type": NODE_TYPE,
            "last_profiled": "never",
            "drift": "not watched yet",
            "next": "now",
            "month_minutes": 0.0,
            "month_usd": 0.0,
            "state": "never done",
        },
        {
            "node_type": "emu.native.c15",
            "last_profiled": "never",
            "drift": "not watched",
            "next": "2030-01-20 02:00",
            "month_minutes": 0.0,
            "month_usd": 0.0,
            "state": "paused",
        },
    ]


def test_minutes_are_of_this_month_and_of_watches_too(home: Path) -> None:
    of = member()
    runs = (
        *visited(of, SUNDAY - 30 * DAY, each_s=600),
        *visited(of, SUNDAY, 2, each_s=100),
        *watched(of, SUNDAY),
    )
    (row,) = shown(home, of, runs=runs)
    assert (row["last_profiled"], row["next"]) == ("2030-01-13 02:05", "2030-01-20 02:00")
    assert (row["state"], row["month_minutes"]) == ("done", 6.0)


def test_dollars_are_of_what_the_nodes_of_a_run_cost_an_hour() -> None:
    of = member(probes=("links",))
    found = visits(
        of, visited(of, SUNDAY, each_s=1800, config={"link_mbps": None, "usd_per_hour": 0.5})
    )
    assert list(usd(found, SUNDAY)) == [pytest.approx(0.25)]
    assert list(usd(found, SUNDAY + HOUR)) == []


def test_what_a_run_cost_goes_before_what_prices_say() -> None:
    of = member(probes=("links",))
    assert list(usd(visits(of, visited(of, SUNDAY, cost_usd=1.25)), SUNDAY)) == [1.25]


def test_an_unknown_price_is_no_price(home: Path) -> None:
    of = member(probes=("links",))
    runs = tuple(visited(of, SUNDAY, each_s=3600))
    (row,) = shown(home, of, runs=runs)
    assert (row["month_usd"], row["month_minutes"]) == (None, 60.0)


def test_a_member_that_cannot_be_measured_says_why(home: Path) -> None:
    (row,) = shown(home, member("emu.gone"))
    assert (row["last_profiled"], row["next"]) == ("never", "2030-01-20 02:00")
    assert "unknown node type 'emu.gone'" in str(row["state"])
