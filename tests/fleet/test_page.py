"""What the fleet's page shows: counts, alarms of all time, and what is stale and mended."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fleet import page
from fleet.history import last_judgements
from fleet.members import Member, remove_member, write_members
from fleet.page import DAYS, FleetPage, read_fleet_page, status
from fleet.readings import WORDS
from fleet.schedule import agenda
from profilers.watch import probe
from tests.fleet.made import NODE_TYPE, NOW, SUNDAY, member, visited, watched
from tests.fleet.paper_watch import SLOW, PaperWatch, land_probe, night
from warehouse.landing import land, landed_runs
from warehouse.records import Run
from warehouse.warehouse import Warehouse

OF = member(probes=("links", "contention"))
QUIET = 6
STEP, STEP_CPU = WORDS[probe.STEP_TIME], WORDS[probe.STEP_CPU]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PROFILED = NOW - DAY


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> PaperWatch:
    """Put a probe that watches nothing in the place of the real one."""
    installed = PaperWatch()
    installed.install(monkeypatch)
    return installed


@pytest.fixture
def warehouse(home: Path, paper: PaperWatch) -> Warehouse:
    """Return a warehouse of a member that was profiled yesterday and watched since."""
    write_members(home, {NODE_TYPE: OF})
    land_visit(home, visited(OF, PROFILED))
    for hour in range(QUIET):
        (run,) = watched(OF, NOW - (QUIET - hour) * HOUR, hour + 1)
        land_probe(home / "landing", run, 1.0)
    made = Warehouse(home)
    night(made, OF)
    assert paper.asked == 0, "the last of these was judged"
    return made


def land_visit(home: Path, runs: Iterable[Run]) -> None:
    for run in runs:
        land(home / "landing", run, None, {})


def shown(home: Path, monkeypatch: pytest.MonkeyPatch, at: datetime) -> FleetPage:
    monkeypatch.setattr(page, "now", lambda: at)
    return read_fleet_page(home)


def test_a_new_home_has_nothing_to_show(home: Path) -> None:
    page = read_fleet_page(home)
    assert (page.names, page.changed, page.visits_due, page.watches_due) == ((), 0, 0, 0)
    assert page.metrics == tuple(WORDS.values())
    for frame in (page.status, page.probes, page.alarms, page.profiled, page.stale):
        assert frame.is_empty()


def test_what_is_due_is_counted_and_visits_are_dated(
    warehouse: Warehouse, paper: PaperWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = shown(warehouse.home, monkeypatch, paper.now)
    assert (page.names, page.changed) == ((NODE_TYPE,), 0)
    assert (page.visits_due, page.watches_due) == (0, 0)
    assert page.profiled.rows() == [(NODE_TYPE, PROFILED, len(OF.probes))]
    assert set(page.probes["what"]) == set(WORDS.values())
    assert page.alarms.is_empty()
    assert page.stale.is_empty()
    later = shown(warehouse.home, monkeypatch, paper.now + 7 * DAY)
    assert (later.visits_due, later.watches_due) == (1, 1)


def test_a_change_is_shown_until_the_type_is_profiled_anew(
    warehouse: Warehouse, paper: PaperWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper.ahead = [SLOW, SLOW]
    night(warehouse, OF)
    page = shown(warehouse.home, monkeypatch, paper.now)
    assert (page.changed, page.visits_due) == (1, 1)
    rows = page.alarms.select("name", "what", "outcome", "confirmed").rows()
    assert sorted(rows) == [(NODE_TYPE, name, "slower", True) for name in sorted((STEP, STEP_CPU))]
    (stale,) = page.stale.to_dicts()
    assert (stale["runs"], stale["fits"]) == (len(OF.probes), 0)
    assert stale["change_percent"] == pytest.approx(50)
    assert stale["mends"] == f"stepcast fleet run {NODE_TYPE}"
    assert set(page.stale_runs["study"]) == {f"fleet.{NODE_TYPE}"}

    anew = paper.now + HOUR
    land_visit(warehouse.home, visited(OF, anew, 2))
    warehouse.load()
    mended = shown(warehouse.home, monkeypatch, anew + HOUR)
    assert (mended.changed, mended.visits_due) == (0, 0)
    (stale,) = mended.stale.to_dicts()
    assert stale["mends"] == f"nothing: profiled anew {anew:%Y-%m-%d %H:%M}"


def test_alarms_stay_when_pictures_have_moved_on(
    warehouse: Warehouse, paper: PaperWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper.ahead = [SLOW]
    night(warehouse, OF)
    page = shown(warehouse.home, monkeypatch, paper.now + (DAYS + 1) * DAY)
    assert page.probes.is_empty()
    assert page.profiled.is_empty()
    assert page.alarms["confirmed"].to_list() == [False, False]


def test_what_was_a_member_is_shown_after_members(
    warehouse: Warehouse, paper: PaperWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper.ahead = [SLOW, SLOW]
    night(warehouse, OF)
    other = member("emu.native.c15")
    write_members(warehouse.home, {other.node_type: other, NODE_TYPE: OF})
    remove_member(warehouse.home, NODE_TYPE)
    page = shown(warehouse.home, monkeypatch, paper.now)
    assert page.names == (other.node_type, NODE_TYPE)
    assert page.stale["mends"].to_list() == [f"stepcast fleet add {NODE_TYPE}"]


def test_a_type_on_two_hosts_is_named_with_each(
    warehouse: Warehouse, paper: PaperWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = warehouse.landing
    (judge,) = (run for run in landed_runs(landing) if run.probe == "drift")
    here = f"{NODE_TYPE} (loopback, {judge.host_id})"
    elsewhere = f"{NODE_TYPE} (loopback, there)"
    moved = [
        run.model_copy(update={"run_id": f"{run.run_id}-there", "host_id": "there"})
        for run in (judge, next(run for run in landed_runs(landing) if run.probe == "watch"))
    ]
    rows = warehouse.query("judgements", node_type=NODE_TYPE)
    judged = rows.select(
        "node_type", "metric", "unit", "value", "expected", "change_percent", "robust_z",
        "earlier_n", "outcome", "alarm", "confirmed", "watched", "confirmed_by",
    )  # fmt: skip
    strange = {"watched": pl.lit(moved[1].run_id), "change_percent": pl.lit(float("inf"))}
    land(landing, moved[0], None, {"judgement": judged.with_columns(**strange)})
    land(landing, moved[1], None, {})
    warehouse.load()
    page = shown(warehouse.home, monkeypatch, paper.now)
    assert page.names == (here, elsewhere)
    assert page.profiled["name"].to_list() == [here]
    probes = page.probes.filter(name=elsewhere)
    assert set(probes["watched"]) == {moved[1].run_id}
    assert probes["change_percent"].null_count() == probes.height, "what is no number is not drawn"


def shown_of_status(
    home: Path, *members: Member, runs: Iterable[Run] = ()
) -> list[dict[str, object]]:
    write_members(home, {of.node_type: of for of in members})
    land_visit(home, runs)
    Warehouse(home).load()
    return status(agenda(home, NOW), last_judgements(home)).to_dicts()


def test_a_new_member_has_nothing_yet(home: Path) -> None:
    assert shown_of_status(
        home, member(), member("emu.native.c15", watched=False, paused=True)
    ) == [
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
    runs = (
        *visited(OF, SUNDAY - 30 * DAY, each_s=600),
        *visited(OF, SUNDAY, 2, each_s=100),
        *watched(OF, SUNDAY),
    )
    (row,) = shown_of_status(home, OF, runs=runs)
    assert (row["last_profiled"], row["next"]) == ("2030-01-13 02:03", "2030-01-20 02:00")
    assert (row["state"], row["month_minutes"]) == ("done", 4.3)


@pytest.mark.parametrize(
    ("changes", "usd"),
    [
        ({"config": {"link_mbps": None, "usd_per_hour": 0.5}}, 0.25),
        ({"config": {"link_mbps": None, "usd_per_hour": 0.5}, "cost_usd": 1.25}, 1.25),
        ({}, None),
        ({"each_s": 0}, 0.0),
    ],
    ids=["by the hour", "as billed", "no price", "no time"],
)
def test_dollars_are_of_what_the_nodes_of_runs_cost(
    home: Path, changes: dict[str, Any], usd: float | None
) -> None:
    of = member(probes=("links",))
    runs = visited(of, SUNDAY, **{"each_s": 1800, **changes})
    (row,) = shown_of_status(home, of, runs=runs)
    assert row["month_usd"] == usd
