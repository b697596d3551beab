"""The folder of a job: who goes on, and with what."""

from pathlib import Path

import pytest

from pipelines.runtime.job_file import TrainingJob, read_job
from pipelines.runtime.keeping import Keeper
from pipelines.runtime.story import Entry, progress
from tests.pipelines.runtime.jobs import write_job
from warehouse.records import BadInput


def job(folder: Path, **changes: object) -> TrainingJob:
    """Return a small job."""
    return read_job(write_job(folder, **changes))


def test_an_unfinished_attempt_is_gone_on_with(tmp_path: Path) -> None:
    with Keeper.open(tmp_path, job(tmp_path)) as first:
        state = first.state.but(phase="training", step=7)
        first.keep(state, [progress(state, 7)])
    with Keeper.open(tmp_path, job(tmp_path, deadline_s=99.0)) as second:
        assert second.folder == first.folder
        assert second.state == state, "limits that were relaxed stay so"
        assert second.began_at == first.began_at
        second.keep(state, [progress(state, 8)])
        assert [one.step for one in second.story] == [7, 8]


def test_what_has_ended_is_followed_by_a_new_attempt(tmp_path: Path) -> None:
    with Keeper.open(tmp_path, job(tmp_path)) as first:
        state = first.state.but(phase="finished")
        first.keep(state, [progress(state, 20)])
    with Keeper.open(tmp_path, job(tmp_path)) as second:
        assert second.folder > first.folder
        assert second.state.phase == "new"


def test_who_goes_on_must_train_the_same(tmp_path: Path) -> None:
    with Keeper.open(tmp_path, job(tmp_path)) as first:
        first.keep(first.state, [progress(first.state, 0)])
    with pytest.raises(BadInput, match=r"unfinished attempt in .* that trains something else"):
        Keeper.open(tmp_path, job(tmp_path, seed=1))


def test_half_a_line_of_the_story_is_left_out(tmp_path: Path) -> None:
    with Keeper.open(tmp_path, job(tmp_path)) as keeper:
        keeper.keep(keeper.state, [Entry(at_s=1.5, event="began", detail={"iterations": 20})])
        with (keeper.folder / "story.jsonl").open("a") as file:
            file.write('{"at_s": 2.')
        (entry,) = keeper.story
    assert (entry.at_s, entry.event, entry.detail["iterations"]) == (1.5, "began", 20)
