"""What is wrong with the profiles of a member, a line each."""

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from fleet.schedule import visits
from fleet.watch import profile_findings
from tests.fleet.made import NOW, SUNDAY, member, visited
from warehouse.landing import land
from warehouse.records import Run

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
MEMBER = member(probes=("tf_trace",))


def told(*runs: Run, now: datetime = NOW, drifted_at: datetime | None = None) -> list[str]:
    return list(profile_findings(visits(MEMBER, runs), Path("nowhere"), now, drifted_at))


def test_new_profiles_are_fine() -> None:
    assert told(*visited(MEMBER, SUNDAY)) == []


def test_what_was_never_profiled_is_told() -> None:
    assert told() == ["it has never been profiled as a whole"]


def test_profiles_are_old_when_a_whole_turn_was_missed_by_a_day() -> None:
    """The week before this one began on the 6th, so that a visit on the 5th was in time for it."""
    in_time = visited(MEMBER, SUNDAY - 8 * DAY)
    assert told(*in_time) == []
    late = visited(MEMBER, SUNDAY - 8 * DAY - 2 * MINUTE)
    assert told(*late) == ["its profiles are of 2030-01-05: older than one week"]


def test_an_unfinished_visit_names_what_it_lacks() -> None:
    of = member(probes=("contention", "tf_trace"))
    runs = [*visited(of, SUNDAY), *visited(of, SUNDAY + DAY, 2, "contention")]
    assert list(profile_findings(visits(of, runs), Path("nowhere"), NOW, None)) == [
        "its visit 2 is unfinished: tf_trace"
    ]


def test_profiles_from_before_a_change_are_told() -> None:
    changed = SUNDAY + DAY
    expected = "it has changed at 2030-01-14 02:00, and its profiles are from before"
    assert told(*visited(MEMBER, SUNDAY), drifted_at=changed) == [expected]
    assert told(*visited(MEMBER, changed), drifted_at=changed) == []
    assert told(drifted_at=changed)[1:] == [expected]


@pytest.mark.parametrize(("mbps", "is_odd"), [(195, False), (60, True), (220, True)])
def test_links_that_are_not_as_shaped_are_told(
    mbps: float, is_odd: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an emulated member, wherever this runs."""
    monkeypatch.setattr("fleet.schedule.chosen_backend", lambda _: ("emulated", "here"))
    monkeypatch.setattr("fleet.schedule.host_id", lambda _: "host-1")
    of = member(probes=("links",), backend="emulated")
    (run,) = visited(of, SUNDAY, backend="emulated", host_id="host-1")
    link = {
        "direction": ["uplink"],
        "flows": [1],
        "flow": [0],
        "trial": [0],
        "seconds": [1.0],
        "bytes": [int(mbps * 125_000)],
        "bandwidth_Bps": [mbps * 125_000.0],
        "retransmits": [0],
    }
    land(tmp_path, run, None, {"link": pl.DataFrame(link)})
    found = list(profile_findings(visits(of, [run]), tmp_path, NOW, None))
    line = f"uplink, 1 flow(s), trial 1: {mbps} Mb/s on a link shaped to 200 Mb/s"
    assert found == ([line] if is_odd else [])
