"""Watching a member night after night, with a probe that lands what a test chooses."""

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet import watch as fleet_watch
from fleet.history import drifted_at, judged_probes, last_judgements
from fleet.history import watches as past_watches
from fleet.members import add
from fleet.readings import METRICS
from fleet.schedule import agenda, probes, watches
from fleet.watch import Budget, watch
from profilers.renting.cap import BudgetExceeded
from profilers.watch import probe
from tests.fleet.made import NODE_TYPE, NOW, member, watched
from tests.fleet.paper_watch import SLOW, STEPS, PaperWatch, Told, alarms, land_probe, night
from warehouse.landing import landed_runs
from warehouse.records import ProbeFailed, Run
from warehouse.warehouse import Warehouse

OF = member()
QUIET = 6


@pytest.fixture(scope="session")
def quiet_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with some quiet nights, of which the last was judged. Tests copy it."""
    home = tmp_path_factory.mktemp("quiet") / "home"
    _land_probes(home, QUIET - 1, NOW - timedelta(hours=QUIET), 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(home))
        paper = PaperWatch(now=NOW - timedelta(hours=1))
        paper.install(patch)
        rows = watch(watches(OF, []), Warehouse(home), Told()).to_dicts()
    assert paper.asked == 1
    assert {(row["earlier_n"], row["alarm"]) for row in rows} == {(QUIET - 1, False)}
    return home


def _land_probes(
    home: Path, count: int, began: datetime, slowness: float, **config: object
) -> None:
    """Land probes an hour apart that nobody judges."""
    known = len(landed_runs(home / "landing"))
    for hour in range(count):
        (run,) = watched(OF, began + timedelta(hours=hour), known + hour + 1)
        changed = run.model_copy(update={"config": {**run.config, **config}})
        land_probe(home / "landing", changed, slowness)


@pytest.fixture
def warehouse(quiet_nights: Path, home: Path) -> Warehouse:
    """Return a warehouse in this test's home, after some quiet nights."""
    return Warehouse(Path(shutil.copytree(quiet_nights, home, dirs_exist_ok=True)))


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> PaperWatch:
    """Put a probe that watches nothing in the place of the real one."""
    installed = PaperWatch()
    installed.install(monkeypatch)
    return installed


def landed(warehouse: Warehouse) -> list[Run]:
    """Return the probes that have landed, in order."""
    return probes(watches(OF, landed_runs(warehouse.landing)).runs)


def odd(warehouse: Warehouse) -> set[str]:
    """Return the probes whose alarm was not confirmed."""
    return set(past_watches(warehouse.home, NODE_TYPE).filter("odd")["run_id"])


def change_of(warehouse: Warehouse, probe: Run) -> dict[str, Any]:
    """Return the row of a probe that found a change, even where one probe is all that is asked."""
    rows = past_watches(warehouse.home, NODE_TYPE, most=1)
    return rows.filter(run_id=probe.run_id).row(0, named=True)


def test_a_first_probe_is_landed_and_says_nothing(home: Path, paper: PaperWatch) -> None:
    warehouse = Warehouse(home)
    rows = night(warehouse, OF)
    assert {row["outcome"] for row in rows} == {"too_few"}
    assert {row["earlier_n"] for row in rows} == {0}
    assert alarms(rows) == {}
    (run,) = landed(warehouse)
    assert {row["watched"] for row in rows} == {run.run_id}
    assert judged_probes(home) == {run.run_id}
    assert [*last_judgements(home).values()] == ["too little history"]


def test_a_quiet_night_is_judged_and_raises_no_alarm(
    warehouse: Warehouse, paper: PaperWatch
) -> None:
    progress = Told()
    rows = night(warehouse, OF, progress)
    assert {row["outcome"] for row in rows} == {"same"}
    assert {(row["earlier_n"], row["confirmed_by"]) for row in rows} == {(QUIET, None)}
    assert (paper.asked, progress.warnings) == (1, [])
    warehouse.load()
    judges = [run for run in landed_runs(warehouse.landing) if run.probe == "drift"]
    assert [run.study for run in judges] == [f"watch.{NODE_TYPE}"] * 2
    assert judged_probes(warehouse.home) == {run.run_id for run in landed(warehouse)[-2:]}
    assert drifted_at(warehouse.home) == {}
    (judgement,) = last_judgements(warehouse.home).values()
    assert judgement.startswith("none: ")


def test_slow_once_is_an_alarm_that_is_not_confirmed_and_no_history(
    warehouse: Warehouse, paper: PaperWatch
) -> None:
    paper.ahead, progress = [SLOW], Told()
    rows = night(warehouse, OF, progress)
    assert alarms(rows) == dict.fromkeys(STEPS, False)
    assert paper.asked == 2
    *_, first, second = landed(warehouse)
    assert {(row["watched"], row["confirmed_by"]) for row in rows} == {
        (first.run_id, second.run_id)
    }
    assert len(progress.warnings) == 1
    assert "seems to have changed" in progress.warnings[0]
    assert f"{probe.STEP_CPU} +50 % worse" in progress.warnings[0]
    assert drifted_at(warehouse.home) == {}
    assert odd(warehouse) == {first.run_id, second.run_id}
    assert {row["earlier_n"] for row in night(warehouse, OF)} == {QUIET}, "both are left out"
    told = warehouse.query("judgements", node_type=NODE_TYPE).filter("alarm").to_dicts()
    assert (told[0]["confirmed"], told[0]["watched_at"]) == (False, first.started_at)


def test_slow_twice_is_confirmed_and_marks_the_type(
    warehouse: Warehouse, paper: PaperWatch
) -> None:
    add(warehouse.home, OF)
    paper.ahead, progress = [SLOW, SLOW], Told()
    rows = night(warehouse, OF, progress)
    assert alarms(rows) == dict.fromkeys(STEPS, True)
    assert all(row["change_percent"] == pytest.approx(50) for row in rows if row["alarm"])
    others = {row["metric"]: row["outcome"] for row in rows if row["metric"] not in STEPS}
    assert others == dict.fromkeys(METRICS.keys() - set(STEPS), "same")
    *_, first, second = landed(warehouse)
    assert drifted_at(warehouse.home) == {watches(OF, []).whose: first.started_at}
    assert (len(progress.warnings), "its profiles are stale" in progress.warnings[1]) == (2, True)
    assert change_of(warehouse, first)["metrics"] == sorted(STEPS)
    assert judged_probes(warehouse.home) >= {first.run_id, second.run_id}
    (judgement,) = last_judgements(warehouse.home).values()
    assert judgement.startswith("confirmed: ")
    assert "+50.0 %" in judgement
    assert {item.drifted_at for item in agenda(warehouse.home, paper.now)} == {first.started_at}


def test_history_begins_anew_after_a_change(warehouse: Warehouse, paper: PaperWatch) -> None:
    paper.ahead = [SLOW] * 2
    night(warehouse, OF)
    _land_probes(warehouse.home, 3, paper.now + timedelta(minutes=1), SLOW)
    paper.now += timedelta(hours=4)
    assert alarms(night(warehouse, OF)) == {}, "slow as it became, of which little is known yet"
    (judgement,) = last_judgements(warehouse.home).values()
    assert judgement.startswith("still slower: ")
    assert paper.asked == 2
    rows = night(warehouse, OF)
    assert {row["earlier_n"] for row in rows} == {5}, "the probes since the change"
    assert {row["outcome"] for row in rows if row["alarm"]} == {"faster"}
    assert alarms(rows) == dict.fromkeys(STEPS, True)


def test_the_end_of_a_change_is_news_too(warehouse: Warehouse, paper: PaperWatch) -> None:
    paper.ahead, progress = [SLOW] * 2, Told()
    night(warehouse, OF)
    rows = night(warehouse, OF, progress)
    assert {row["outcome"] for row in rows if row["alarm"]} == {"ended"}
    assert alarms(rows) == dict.fromkeys(STEPS, True)
    assert "as it was before its change" in progress.warnings[0]
    *_, first, _ = landed(warehouse)
    assert set(drifted_at(warehouse.home).values()) == {first.started_at}
    assert change_of(warehouse, first)["ended"]


def test_a_command_hears_once_of_a_change_and_of_its_end(
    warehouse: Warehouse, paper: PaperWatch, notices: Callable[[], list[dict[str, Any]]]
) -> None:
    paper.ahead = [SLOW]
    night(warehouse, OF)
    assert notices() == [], "no second probe confirmed it"
    paper.ahead = [SLOW] * 2
    night(warehouse, OF)
    (notice,) = notices()
    assert notice["title"] == f"Stepcast: {NODE_TYPE} has changed"
    assert (notice["node_type"], notice["state"]) == (NODE_TYPE, "changed")
    assert "time of a step +50.0 % worse" in notice["changes"]
    paper.ahead = [SLOW]
    night(warehouse, OF)
    assert len(notices()) == 1
    night(warehouse, OF)
    _, end = notices()
    assert end["title"] == f"Stepcast: {NODE_TYPE} is as it was before its change"


def test_a_probe_of_a_process_that_died_is_judged_without_probing(
    warehouse: Warehouse, paper: PaperWatch
) -> None:
    paper.dies = True
    with pytest.raises(KeyboardInterrupt):
        night(warehouse, OF)
    warehouse.load()
    *_, unjudged = landed(warehouse)
    assert unjudged.run_id not in judged_probes(warehouse.home)
    paper.dies = False
    rows = night(warehouse, OF)
    assert paper.asked == 1
    assert {row["watched"] for row in rows} == {unjudged.run_id}
    assert unjudged.run_id in judged_probes(warehouse.home)


def test_a_death_between_alarm_and_second_probe_is_gone_on_with(
    warehouse: Warehouse, paper: PaperWatch
) -> None:
    paper.ahead, paper.dies = [SLOW], True
    with pytest.raises(KeyboardInterrupt):
        night(warehouse, OF)
    paper.ahead, paper.dies = [SLOW], False
    assert alarms(night(warehouse, OF)) == dict.fromkeys(STEPS, True)
    assert paper.asked == 2
    *_, first, _ = landed(warehouse)
    assert set(drifted_at(warehouse.home).values()) == {first.started_at}


def test_a_second_probe_that_fails_leaves_the_first_to_be_judged(
    warehouse: Warehouse, paper: PaperWatch
) -> None:
    paper.ahead = [SLOW, None]
    with pytest.raises(ProbeFailed, match="no paper left"):
        night(warehouse, OF)
    *_, first = landed(warehouse)
    assert first.run_id not in judged_probes(warehouse.home)
    rows = night(warehouse, OF)
    assert {row["watched"] for row in rows} == {first.run_id}
    assert alarms(rows) == dict.fromkeys(STEPS, False), "the second one was as ever"


def test_a_probe_on_links_of_another_speed_is_no_history(home: Path, paper: PaperWatch) -> None:
    warehouse = Warehouse(home)
    _land_probes(home, QUIET, NOW - timedelta(hours=QUIET), SLOW, link_mbps=50.0)
    rows = watch(watches(OF, []), warehouse, Told()).to_dicts()
    assert paper.asked == 1
    assert {(row["outcome"], row["earlier_n"]) for row in rows} == {("too_few", 0)}


def test_a_rented_machine_that_is_slower_is_none_but_all_machines_are(
    warehouse: Warehouse, paper: PaperWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each probe is on another machine, as on rented nodes; six before are alike."""
    monkeypatch.setattr(fleet_watch, "RENTED", ("loopback",))
    paper.ahead = [1.28]
    assert alarms(night(warehouse, OF)) == {}
    (judgement,) = last_judgements(warehouse.home).values()
    assert ", machines ±" in judgement
    paper.ahead, progress = [2.0, 2.0, 1.0], Told()
    assert alarms(night(warehouse, OF, progress)) == dict.fromkeys(STEPS, True)
    assert "(the mean of 2 machines; machines of the type differ by " in progress.warnings[0]
    assert alarms(night(warehouse, OF)) == {}, "one machine as they were is no end of it"


def test_what_is_left_may_be_taken_and_what_was_spent_before_an_interruption_counts() -> None:
    now_s = 1000.0
    budget = Budget(1200, spent_s=800, clock=lambda: now_s)
    budget.may_take(400)
    now_s += 100
    assert budget.left_s == 300
    with pytest.raises(BudgetExceeded) as caught:
        budget.may_take(360)
    now_s += 400
    assert budget.left_s == 0, "it took longer than expected"
    assert str(caught.value) == (
        "the next run takes about 6.0 min, and 5.0 min of 20.0 min are left; the next visit goes on"
    )
