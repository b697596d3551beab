"""One screen of the fleet: what each row says, and which come first."""

from datetime import timedelta

from fleet.schedule import status
from profilers.clusters import host_id
from tests.fleet.made import NODE_TYPE, NOW, SUNDAY, member, visited
from tests.fleet.test_agenda import made

OTHER, GONE = "emu.native.c15", "emu.gone"
HERE = (NODE_TYPE, "loopback", host_id("loopback"))


def test_rows_say_what_was_done_and_what_is_next() -> None:
    of = member()
    agenda = made(of, member(OTHER, watched=False, paused=True), runs=visited(of, SUNDAY))
    assert status(agenda, {HERE: "none: memory +1.0 %"}).rows() == [  # type: ignore[dict-item]
        (NODE_TYPE, "2030-01-13 02:03", "none: memory +1.0 %", "2030-01-20 02:00", "done"),
        (OTHER, "never", "not watched", "2030-01-20 02:00", "paused"),
    ]
    assert status(agenda, {})["drift"][0] == "not watched yet"
    assert status([], {}).is_empty()


def test_those_that_need_a_look_come_first() -> None:
    """Of one that cannot be measured, one that has changed, and one where nothing is wrong."""
    of, calm = member(watched=False), member(OTHER, watched=False)
    runs = [*visited(of, SUNDAY), *visited(calm, SUNDAY)]
    changed = {HERE: NOW - timedelta(hours=1)}
    agenda = made(calm, of, member(GONE, watched=False), runs=runs, drifted_at=changed)  # type: ignore[arg-type]
    assert status(agenda, {})["node_type"].to_list() == [GONE, NODE_TYPE, OTHER]
