"""What the fleet has to do: who is due, and what names a visit."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fleet.history import NodeTypeKey
from fleet.members import Member
from fleet.schedule import AgendaItem, agenda, items, visits
from tests.fleet.made import NODE_TYPE, NOW, SUNDAY, TONIGHT, member, visited, watched
from warehouse.home import FLEET_MEMBERS
from warehouse.records import BadInput, Run

OTHER = "emu.native.c15"
DAY = timedelta(days=1)


def made(
    *members: Member,
    runs: Sequence[Run] = (),
    judged: Sequence[str] = (),
    drifted_at: Mapping[NodeTypeKey, datetime] | None = None,
    at: datetime = NOW,
) -> list[AgendaItem]:
    ordered = sorted(runs, key=lambda run: run.started_at)
    return items(members, ordered, drifted_at or {}, judged, at)


def told(items: Sequence[AgendaItem]) -> list[tuple[str, bool, bool, str]]:
    return [(item.member.node_type, item.watches, item.due.now, item.due.why) for item in items]


def test_watches_come_before_visits() -> None:
    assert told(made(member(), member(OTHER, watched=False))) == [
        (NODE_TYPE, True, True, "never done"),
        (NODE_TYPE, False, True, "never done"),
        (OTHER, False, True, "never done"),
    ]


def test_a_member_that_cannot_be_measured_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STEPCAST_FLEET", str(tmp_path / "none.yaml"))
    strange = member("emu.gone", watched=False)
    away = member("lab.small", backend="ssh", watched=False)
    unknown = member(OTHER, networks=("no_such",), watched=False)
    items = made(strange, away, unknown, member(watched=False))
    assert [(item.visits is None, item.due.now) for item in items] == [
        (True, False),
        (True, False),
        (True, False),
        (False, True),
    ]
    assert "unknown node type 'emu.gone'" in items[0].due.why
    assert "unknown DNN 'no_such'" in items[2].due.why
    assert {item.due.next for item in items[:3]} == {SUNDAY + 7 * DAY}, "as by the calendar"


def test_a_change_makes_visits_due_and_no_watch() -> None:
    of = member()
    runs = [*visited(of, SUNDAY), *watched(of, TONIGHT)]
    judged = [run.run_id for run in runs]
    changed = {visits(of, []).whose: TONIGHT}
    assert told(made(of, runs=runs, judged=judged)) == [
        (NODE_TYPE, True, False, "done"),
        (NODE_TYPE, False, False, "done"),
    ]
    assert told(made(of, runs=runs, judged=judged, drifted_at=changed)) == [
        (NODE_TYPE, True, False, "done"),
        (NODE_TYPE, False, True, "it has drifted"),
    ]
    elsewhere = {(NODE_TYPE, "loopback", "another host"): TONIGHT}
    assert not made(of, runs=runs, judged=judged, drifted_at=elsewhere)[1].due.now  # type: ignore[arg-type]


def test_a_probe_that_nobody_judged_is_due() -> None:
    of = member()
    (probe,) = watched(of, TONIGHT)
    watch, _ = made(of, runs=[probe])
    assert (watch.due.now, watch.due.why) == (True, "its last probe was not judged")
    assert not made(of, runs=[probe], judged=[probe.run_id])[0].due.now
    assert not made(member(paused=True), runs=[probe])[0].due.now


def test_a_second_probe_that_fails_is_not_tried_again_before_the_next_night() -> None:
    """The first one was never judged; to judge it is to probe again, which fails each time."""
    of = member()
    first = watched(of, TONIGHT)
    failed = watched(of, TONIGHT + DAY / 100, 2, status="failed", error="no")
    watch, _ = made(of, runs=[*first, *failed])
    assert (watch.due.now, watch.due.why) == (False, "failed")
    watch, _ = made(of, runs=[*first, *failed], at=NOW + DAY)
    assert watch.due.now


def test_a_key_names_a_turn_until_something_lands() -> None:
    of = member(watched=False)
    (item,) = made(of)
    assert item.key(NOW) == f"profile {NODE_TYPE} 2030-01-13T02:00 none"
    assert item.key(NOW + DAY) == item.key(NOW), "the same week"
    assert item.key(NOW + 7 * DAY) != item.key(NOW)
    (failed,) = visited(of, SUNDAY, 1, "links", status="failed", error="no")
    (later,) = made(of, runs=[failed])
    assert later.key(NOW) == f"profile {NODE_TYPE} 2030-01-13T02:00 {failed.run_id}"


def test_a_home_without_members_or_history_has_an_agenda(home: Path) -> None:
    assert agenda(home) == ()
    (home / FLEET_MEMBERS).write_text(f"{NODE_TYPE}: {{probes: [links], backend: loopback, ")
    with pytest.raises(BadInput, match=FLEET_MEMBERS):
        agenda(home)
    (home / FLEET_MEMBERS).write_text(
        f"{NODE_TYPE}: {{probes: [links], backend: loopback, added_at: 2030-01-01T00:00:00Z}}"
    )
    assert [item.due.why for item in agenda(home, NOW)] == ["never done", "never done"]
