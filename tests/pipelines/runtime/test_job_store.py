"""The folder of a job: who goes on, and with what."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from pipelines.runtime.job_file import TrainingJob, read_job
from pipelines.runtime.job_store import EventLogEntry, JobStore, progress_entry
from tests.clocks import DAY, WallClock
from tests.pipelines.runtime.jobs import write_job
from tests.warehouse.conftest import limited
from warehouse.records import BadInput, StepcastError


def job(folder: Path, **changes: object) -> TrainingJob:
    """Return a small job."""
    return read_job(write_job(folder, **changes))


def test_an_unfinished_attempt_is_gone_on_with(tmp_path: Path) -> None:
    with JobStore.open(tmp_path, job(tmp_path)) as first:
        state = first.state.but(phase="training", step=7)
        first.keep(state, [progress_entry(state, 7)])
    with JobStore.open(tmp_path, job(tmp_path, deadline_s=99.0)) as second:
        assert second.folder == first.folder
        assert second.state == state, "limits that were relaxed stay so"
        assert second.attempt.began_at == first.attempt.began_at
        second.keep(state, [progress_entry(state, 8)])
        assert [entry.step for entry in second.story] == [7, 8]


def test_what_has_ended_is_followed_by_a_new_attempt(tmp_path: Path) -> None:
    with JobStore.open(tmp_path, job(tmp_path)) as first:
        state = first.state.but(phase="finished")
        first.keep(state, [progress_entry(state, 20)])
        first.landed()
    with JobStore.open(tmp_path, job(tmp_path)) as second:
        assert second.folder > first.folder
        assert second.state.phase == "new"


def test_who_goes_on_must_train_the_same(tmp_path: Path) -> None:
    with JobStore.open(tmp_path, job(tmp_path)) as first:
        first.keep(first.state, [progress_entry(first.state, 0)])
    with pytest.raises(BadInput, match=r"unfinished attempt in .* that trains something else"):
        JobStore.open(tmp_path, job(tmp_path, seed=1))


@pytest.mark.parametrize("half", ['{"at_s": 2.', '{"at_s":2.0,"event":"lost","node":"no'])
def test_half_a_line_of_the_story_is_left_out(tmp_path: Path, half: str) -> None:
    """As an earlier version may have left it, with the next entry in the same line."""
    began, saved = (
        EventLogEntry(at_s=1.5, event=event, detail={"of": 20}) for event in ("began", "saved")
    )
    with JobStore.open(tmp_path, job(tmp_path)) as keeper:
        keeper.keep(keeper.state, [began])
        with (keeper.folder / "story.jsonl").open("a") as file:
            file.write(half + saved.model_dump_json() + "\n" + half)
    with JobStore.open(tmp_path, job(tmp_path)) as keeper:
        keeper.keep(keeper.state, [progress_entry(keeper.state, 7)])
        assert keeper.story == [began, saved, progress_entry(keeper.state, 7)]


@pytest.mark.parametrize("room_bytes", [-50, 20])
def test_a_full_disk_leaves_what_was_kept_before(tmp_path: Path, room_bytes: int) -> None:
    """First there is no room for the story, then for the state alone."""
    with JobStore.open(tmp_path, job(tmp_path)) as keeper:
        entries = [progress_entry(keeper.state, step) for step in range(3)]
        keeper.keep(keeper.state, entries)
        files = {path: path.read_bytes() for path in keeper.folder.iterdir()}
        size = max(map(len, files.values())) + room_bytes
        state = keeper.state.but(step=7, error="e" * 100)
        more = [progress_entry(keeper.state, 3)] * (10 if room_bytes > 0 else 1)
        message = "could not be written to .*File too large; free some space"
        with limited(size), pytest.raises(StepcastError, match=message):
            keeper.keep(state, more)
        assert {path: path.read_bytes() for path in keeper.folder.iterdir()} == files
        assert keeper.state != state
        keeper.keep(state, more)
        assert keeper.story == [*entries, *more]


def test_what_is_over_and_has_not_landed_is_gone_on_with(tmp_path: Path) -> None:
    with JobStore.open(tmp_path, job(tmp_path)) as first:
        state = first.state.but(phase="finished")
        first.keep(state, [progress_entry(state, 20)])
    with JobStore.open(tmp_path, job(tmp_path)) as second:
        assert (second.folder, second.attempt.run_id) == (first.folder, first.attempt.run_id)
        assert second.state == state
        second.landed()
    with JobStore.open(tmp_path, job(tmp_path)) as third:
        assert third.folder != first.folder
        assert third.state.phase == "new"


@pytest.mark.parametrize("by", [DAY, -DAY])
def test_nobody_who_sets_the_clock_changes_how_long_ago_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: timedelta
) -> None:
    wall = WallClock(monkeypatch)
    with JobStore.open(tmp_path, job(tmp_path)) as first:
        wall.set(by)
        assert 0 <= first.now_s() < 60
        state = first.state.but(at_s=first.now_s())
        first.keep(state, [progress_entry(state, 1)])
        now_s = first.now_s()
    wall.set(by)
    with JobStore.open(tmp_path, job(tmp_path)) as second:
        assert second.folder == first.folder
        assert now_s <= second.now_s() < now_s + 60


@pytest.mark.parametrize(("by", "at_s", "expected_s"), [(-DAY, 50.0, 50.0), (DAY, 50.0, 86_400.0)])
def test_after_a_restart_of_the_machine_the_date_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: timedelta, at_s: float, expected_s: float
) -> None:
    """No clock goes on meanwhile but the wall clock; what is known has taken its time anyhow."""
    with JobStore.open(tmp_path, job(tmp_path)) as first:
        state = first.state.but(at_s=at_s)
        first.keep(state, [progress_entry(state, 1)])
    file = first.folder / "state.json"
    kept = json.loads(file.read_text())
    began_at = (first.attempt.began_at - by).isoformat()
    file.write_text(json.dumps({**kept, "boot_id": "another", "began_at": began_at}))
    with JobStore.open(tmp_path, job(tmp_path)) as second:
        assert expected_s <= second.now_s() < expected_s + 60


def test_attempts_of_earlier_versions(tmp_path: Path) -> None:
    """They do not say how their runs are called, nor that they have landed."""
    with JobStore.open(tmp_path, job(tmp_path)) as keeper:
        keeper.keep(keeper.state, [progress_entry(keeper.state, 1)])
    file = keeper.folder / "state.json"
    kept = json.loads(file.read_text())
    earlier = {name: kept[name] for name in ("training_id", "began_at", "state")}
    file.write_text(json.dumps(earlier))
    with JobStore.open(tmp_path, job(tmp_path)) as keeper:
        assert keeper.folder == file.parent, "it goes on"
        keeper.keep(keeper.state.but(phase="finished"), [progress_entry(keeper.state, 20)])
    with JobStore.open(tmp_path, job(tmp_path)) as keeper:
        assert keeper.folder == file.parent, "what this version ends has to land"
    file.write_text(json.dumps({**earlier, "state": {**kept["state"], "phase": "finished"}}))
    with JobStore.open(tmp_path, job(tmp_path)) as keeper:
        assert keeper.folder != file.parent, "what an earlier one has ended is done"
