"""The rounds of studies as assets see them throughout one run of Dagster."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import resources
from assets.resources import (
    OWNER_TAG,
    RoundsResource,
    WarehouseResource,
    free_dead_runs,
    owner_tag,
    run_lock,
)
from profilers.clusters import host_id
from studies.rounds import Round
from studies.study import read_study
from tests.profilers.clusters.killed import made_by_a_killed_process
from tests.synthetic import STUDY, SYNCHRONOUS, landed, needs, write_study
from warehouse.records import BadInput


def rounds(home: Path) -> RoundsResource:
    """Return the rounds that one run of Dagster works on."""
    return RoundsResource(backend="loopback", warehouse=WarehouseResource(home=str(home)))


def test_a_run_keeps_its_round_when_a_probe_completes_it(
    landed_round: Callable[[str], Round], home: Path, tmp_path: Path
) -> None:
    file = write_study(tmp_path)
    run = rounds(home)
    assert run.opened(file).missing
    run.keep(file, landed_round(STUDY))
    after = run.opened(file)
    assert (after.repeat, after.missing) == (1, ())
    assert rounds(home).opened(file).repeat == 2


def test_a_later_round_that_needs_no_profiles_is_the_latest_of_the_run_that_opened_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path, SYNCHRONOUS.replace("probes:", "again: {fraction: 0.5}\nprobes:"))
    on_this_host: dict[str, Any] = {"backend": "loopback", "host_id": host_id("loopback")}
    runs = [landed(need, **on_this_host) for need in needs(read_study(file), "loopback")]
    monkeypatch.setattr(resources, "landed_runs", lambda folder: runs)
    run = rounds(home)
    assert run.latest(file).repeat == 1
    opened = run.opened(file)
    assert opened.missing
    assert not [need.title for need in opened.missing if need.profiles]
    assert run.latest(file) == opened


def test_kept_runs_of_another_host_are_shown_where_nothing_has_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path)
    runs = [
        landed(need, backend="loopback", host_id="another")
        for need in needs(read_study(file), "loopback")
    ]
    monkeypatch.setattr(resources, "landed_runs", lambda folder: runs)
    run = rounds(home)
    assert (run.latest(file).host_id, run.latest(file).missing) == ("another", ())
    with pytest.raises(BadInput, match="nothing of study paper has run on this host yet"):
        run.latest_here(file)
    assert run.opened(file).host_id == host_id("loopback")
    assert run.latest(file) == run.opened(file) == run.latest_here(file)


def test_before_anything_has_run_there_is_no_latest_round(home: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nothing of study paper has run yet; run it first"):
        rounds(home).latest(write_study(tmp_path))


HOLDER = """
import sys
from collections.abc import Callable
from pathlib import Path
from assets.resources import run_lock
with run_lock(Path(sys.argv[1]), print):
    print("held", flush=True)
    sys.stdin.readline()
"""


@dg.job
def nothing() -> None:
    """Do nothing."""


def test_the_lock_of_runs_is_reentrant(home: Path) -> None:
    messages: list[str] = []
    with run_lock(home, messages.append), run_lock(home, messages.append):
        pass
    assert messages == []


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
    messages: list[str] = []

    def let_go(text: str) -> None:
        messages.append(text)
        holder.communicate("\n", timeout=30)

    with run_lock(home, let_go):
        assert messages == [f"waiting for process {holder.pid}, which runs in {home}"]


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
    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(
            nothing, tags={OWNER_TAG: tag} if tag else {}, status=dg.DagsterRunStatus.STARTED
        )
        assert free_dead_runs(instance) == ([run.run_id] if is_dead else [])
        stored = instance.get_run_by_id(run.run_id)
        assert stored is not None
        assert (stored.status == dg.DagsterRunStatus.FAILURE) == is_dead
