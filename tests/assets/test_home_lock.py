"""One run at a time in a home; runs of dead processes are ended."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus, job

from assets.resources import OWNER_TAG, free_dead_runs, owner_tag, turn
from tests.profilers.clusters.killed import made_by_a_killed_process

HOLDER = """
import sys
from collections.abc import Callable
from pathlib import Path
from assets.resources import turn
with turn(Path(sys.argv[1]), print):
    print("held", flush=True)
    sys.stdin.readline()
"""


@job
def nothing() -> None:
    """Do nothing."""


def test_a_turn_is_reentrant(home: Path) -> None:
    told: list[str] = []
    with turn(home, told.append), turn(home, told.append):
        pass
    assert told == []


def test_another_process_waits_and_says_for_whom(home: Path) -> None:
    checkout = Path(__file__).parents[2]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home)],
        cwd=checkout,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    told: list[str] = []

    def let_go(text: str) -> None:
        told.append(text)
        holder.communicate("\n", timeout=30)

    with turn(home, let_go):
        assert told == [f"waiting for process {holder.pid}, which runs in {home}"]


def test_homes_do_not_wait_for_each_other(tmp_path: Path) -> None:
    with turn(tmp_path / "a", pytest.fail), turn(tmp_path / "b", pytest.fail):
        pass


@pytest.mark.parametrize(
    ("make", "is_dead"),
    [
        (lambda: f"{made_by_a_killed_process()}-run", True),
        (lambda: "stepcast-1-1-0-run", True),
        (owner_tag, False),
        (str, False),
    ],
    ids=["killed", "of an earlier version", "ours", "nobody's"],
)
def test_only_runs_of_dead_owners_are_ended(
    home: Path, make: Callable[[], str], is_dead: bool
) -> None:
    tag = make()
    with DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(
            nothing, tags={OWNER_TAG: tag} if tag else {}, status=DagsterRunStatus.STARTED
        )
        assert free_dead_runs(instance) == ([run.run_id] if is_dead else [])
        found = instance.get_run_by_id(run.run_id)
        assert found is not None
        assert (found.status == DagsterRunStatus.FAILURE) == is_dead


def test_finished_runs_are_left_alone() -> None:
    with DagsterInstance.ephemeral() as instance:
        instance.create_run_for_job(
            nothing, tags={OWNER_TAG: "stepcast-1-1-0-run"}, status=DagsterRunStatus.SUCCESS
        )
        assert free_dead_runs(instance) == []
