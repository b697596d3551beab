"""Job files: what is wrong with one is said in one line."""

import math
from pathlib import Path

import pytest

from networks import UnknownNetwork
from pipelines.runtime.job_file import read_job
from pipelines.runtime.state import LearnedDurations
from tests.pipelines.runtime import jobs
from tests.pipelines.runtime.jobs import write_job
from warehouse.records import BadInput

OFFER = {"node_type": jobs.FAST, "usd_per_hour": 1, "capacity": 1}
LOSS = {"node_type": jobs.FAST, "after_iterations": 1}


def test_a_job_is_read_with_its_profile(tmp_path: Path) -> None:
    job = read_job(write_job(tmp_path))
    assert job.profile == tmp_path / "profile.json"
    assert job.state().deadline_s == 3600
    assert job.controller(jobs.profile().performance).silence_s == 10


def test_times_are_the_papers_unless_given(tmp_path: Path) -> None:
    path = write_job(tmp_path)
    path.write_text(
        "\n".join(
            line
            for line in path.read_text().splitlines()
            if not line.startswith(("launch_s", "detach_s"))
        )
    )
    state = read_job(path).state()
    assert (state.launch, state.detach) == (
        LearnedDurations(assumed_s=150),
        LearnedDurations(assumed_s=5),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"global_batch": 0}, "global_batch: input should be greater than or equal to 1"),
        ({"colour": "red"}, "colour: no such key; the keys are name, dnn"),
        ({"offers": []}, "offers: tuple should have at least 1 item"),
        ({"budget_usd": -3}, "budget_usd: input should be greater than 0, found -3"),
        ({"name": "../small"}, "name: string should match pattern"),
        ({"samples": 10**12}, "samples: input should be less than or equal to 10000000"),
        ({"seed": 1 << 40}, "seed: input should be less than"),
        ({"global_batch": 10**9}, "global_batch: input should be less than or equal to"),
        ({"iterations": 10**18}, "iterations: input should be less than or equal to"),
        ({"image_size": 10**6}, "image_size: input should be less than or equal to"),
        ({"deadline_s": math.nan}, "deadline_s: input should be a finite number"),
        ({"budget_usd": math.inf}, "budget_usd: input should be a finite number"),
        ({"silence_s": math.nan}, "silence_s: input should be a finite number"),
        ({"launch_s": -1}, "launch_s: input should be greater than or equal to 0"),
        ({"detach_s": math.inf}, "detach_s: input should be a finite number"),
        ({"search": {"solve_s": math.inf}}, "solve_s: input should be a finite number"),
        ({"interruptions": [LOSS] * 1001}, "interruptions: tuple should have at most 1000 items"),
        (
            {"offers": [{**OFFER, "capacity": 10**9}]},
            r"offers\[0\].capacity: input should be less than or equal to 10000",
        ),
        (
            {"offers": [{**OFFER, "usd_per_hour": math.nan}]},
            r"offers\[0\].usd_per_hour: input should be a finite number",
        ),
        ({"offers": [{"node_type": "emu.x", "usd_per_hour": 1, "capacity": 1}]}, "unknown node"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        read_job(write_job(tmp_path, **changes))


def test_a_job_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.yaml does not exist"):
        read_job(tmp_path / "none.yaml")


def test_an_unknown_network_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownNetwork):
        read_job(write_job(tmp_path, dnn="small_cmm"))
