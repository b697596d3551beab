"""Jobs on real nodes that are taken away: what is trained, and with which samples."""

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.runtime import checkpoints, janitor
from pipelines.runtime.attempt import train
from pipelines.runtime.job_file import read_job
from pipelines.runtime.job_store import EventLogEntry
from pipelines.runtime.plan import Infeasible, LimitRelaxation
from pipelines.runtime.rank import load
from pipelines.runtime.state import JobState
from profilers.clusters import host_id, owner
from profilers.clusters.fleet import VARIABLE
from tests.leftovers import left_behind
from tests.pipelines.runtime.jobs import FAST, GLOBAL_BATCH, SAMPLES, SLOW, profile, write_job
from tests.pipelines.runtime.sample_logs import consumed_samples, read_sample_logs
from tests.profilers.clusters.machines import machines
from warehouse.landing import read_tables, run_folders
from warehouse.records import Backend

ITERATIONS = 20
TOLERANCE = 1e-5
"""Of parameters below 1, after iterations whose sums were added up in another order."""


@dataclass(frozen=True)
class Trained:
    """A job that has ended, with the folder of its attempt."""

    home: Path
    folder: Path
    state: JobState
    story: list[EventLogEntry]

    def of(self, event: str) -> list[EventLogEntry]:
        """Return the entries of one kind."""
        return [entry for entry in self.story if entry.event == event]

    def checkpoint(self, step: int) -> dict[str, Any]:
        """Return the checkpoint of an iteration."""
        path = checkpoints.of_step(self.folder, step)
        assert path is not None, f"no checkpoint of iteration {step}"
        return load(path)


def run(
    folder: Path, *, backend: Backend = "emulated", devices: int = 1, **changes: object
) -> Trained:
    """Train a job to its end; fast nodes have so many devices."""
    home = folder / "home"

    def abort(infeasible: Infeasible, state: JobState) -> LimitRelaxation | None:
        return None

    job = read_job(write_job(folder, **{"iterations": ITERATIONS, **changes}))
    performance = profile({FAST: devices})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPCAST_HOME", str(home))
        keeper, state = train(job, performance, backend, home, lambda _: None, abort)
        assert left_behind() == []
    return Trained(home, keeper.folder, state, keeper.story)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return the job on two fast nodes to its end, with the checkpoint of every iteration."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    return run(folder, checkpoint_every=1, keep_checkpoints=ITERATIONS)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Return the scenario of section 5.4 at our size: half-way, one of two fast nodes is killed."""
    lost = [{"after_iterations": 8, "node_type": FAST, "how": "kill"}]
    folder = tmp_path_factory.mktemp("killed")
    return run(folder, interruptions=lost, keep_checkpoints=ITERATIONS)


@pytest.mark.cluster
def test_a_killed_node_is_replaced_by_others_of_another_type(killed: Trained) -> None:
    assert (killed.state.phase, killed.state.step) == ("finished", ITERATIONS)
    (lost,) = killed.of("lost")
    assert (lost.node, lost.node_type, lost.detail["reason"]) == ("node0", FAST, "ended")
    first, second = killed.of("planned")
    assert first.detail["configuration"] == f"2 {FAST}@4"
    assert second.detail["configuration"] == f"1 {FAST}@4 + 2 {SLOW}@2"
    again = killed.of("training")[1]
    assert again.detail["nodes"] == ["node1", "node2", "node3"], "the live one leads"
    (saved,) = [entry.step for entry in killed.of("saved") if entry.detail["asked"]]
    assert again.step == saved


@pytest.mark.cluster
def test_the_checkpoint_is_the_uninterrupted_runs_bit_for_bit(
    killed: Trained, uninterrupted: Trained
) -> None:
    import torch

    (saved,) = [entry for entry in killed.of("saved") if entry.detail["asked"]]
    assert saved.step is not None and saved.step >= 8
    actual, expected = killed.checkpoint(saved.step), uninterrupted.checkpoint(saved.step)
    assert actual["samples"] == expected["samples"] == saved.step * GLOBAL_BATCH
    for name, value in expected["model"].items():
        assert torch.equal(actual["model"][name], value), name
    momenta = actual["optimizer"]["state"]
    for place, state in expected["optimizer"]["state"].items():
        assert torch.equal(momenta[place]["momentum_buffer"], state["momentum_buffer"])


@pytest.mark.cluster
def test_parameters_agree_after_other_nodes_have_divided_the_batch(
    killed: Trained, uninterrupted: Trained
) -> None:
    import torch

    actual = killed.checkpoint(ITERATIONS)["model"]
    expected = uninterrupted.checkpoint(ITERATIONS)["model"]
    before = uninterrupted.checkpoint(ITERATIONS - 1)["model"]
    for name, value in expected.items():
        apart = float((actual[name] - value).abs().max())
        assert apart <= TOLERANCE, name
        assert not torch.allclose(before[name], value, rtol=0, atol=TOLERANCE), "as if it had not"


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_each_device_of_a_node_is_a_rank(tmp_path: Path, uninterrupted: Trained) -> None:
    import torch

    lost = [{"after_iterations": 8, "node_type": FAST, "how": "kill"}]
    trained = run(tmp_path, devices=2, interruptions=lost)
    first, second = trained.of("planned")
    assert first.detail["configuration"] == f"2 {FAST}@4"
    assert second.detail["configuration"] == f"1 {FAST}@4 + 2 {SLOW}@2"
    took = {
        (log.incarnation, log.rank): len(log.indices) for log in read_sample_logs(trained.folder)
    }
    assert [took[1, rank] for rank in range(4)] == [2, 2, 2, 2], "two nodes of two devices"
    assert [took[2, rank] for rank in range(4)] == [2, 2, 2, 2], "one of two, two of one"
    steps = consumed_samples(read_sample_logs(trained.folder))
    assert {len(indices) for indices in steps.values()} == {GLOBAL_BATCH}
    actual, expected = (
        attempt.checkpoint(ITERATIONS)["model"] for attempt in (trained, uninterrupted)
    )
    for name, value in expected.items():
        assert torch.allclose(actual[name], value, rtol=0, atol=TOLERANCE), name


@pytest.mark.cluster
@pytest.mark.parametrize("which", ["killed", "uninterrupted"])
def test_every_sample_is_taken_once_in_each_epoch(
    which: str, request: pytest.FixtureRequest
) -> None:
    assert_each_once_in_each_epoch(request.getfixturevalue(which))


def assert_each_once_in_each_epoch(trained: Trained) -> None:
    """Check what all ranks wrote down of the samples that they took."""
    steps = consumed_samples(read_sample_logs(trained.folder))
    assert sorted(steps) == list(range(trained.state.iterations))
    assert {len(indices) for indices in steps.values()} == {GLOBAL_BATCH}
    stream = list(chain.from_iterable(steps[step] for step in sorted(steps)))
    epochs = [stream[start : start + SAMPLES] for start in range(0, len(stream), SAMPLES)]
    assert [Counter(epoch) for epoch in epochs] == [Counter(range(SAMPLES))] * len(epochs)
    assert epochs[0] != epochs[1], "each epoch has an order of its own"


@pytest.mark.exhaustive
@pytest.mark.sshd
def test_machines_that_share_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with machines(tmp_path, 4) as file:
        fleet = yaml.safe_load(file.read_text())
        fleet["node_types"] = {name: {"threads": 1} for name in (FAST, SLOW)}
        for machine, name in zip(fleet["machines"], (FAST, FAST, SLOW, SLOW), strict=True):
            machine["node_type"] = name
        file.write_text(yaml.safe_dump(fleet))
        monkeypatch.setenv(VARIABLE, str(file))
        soon = [{"after_iterations": 8, "node_type": FAST, "how": "notice"}]
        # Each checkpoint is copied over ssh: with one every 5 iterations the notice is heard late.
        seldom = {"iterations": 500, "checkpoint_every": 100}
        trained = run(tmp_path, backend="ssh", interruptions=soon, **seldom)
        fleet_host_id = host_id("ssh")
        left = [path.name for path in tmp_path.glob("m*/.cache/stepcast/*")]
    assert (trained.state.phase, trained.state.step) == ("finished", 500)
    lost = [(entry.node_type, entry.detail["reason"]) for entry in trained.of("lost")]
    assert lost == [(FAST, "notice")]
    assert trained.of("planned")[1].detail["configuration"] == f"1 {FAST}@4 + 2 {SLOW}@2"
    assert trained.checkpoint(500)["samples"] == 500 * GLOBAL_BATCH
    assert_each_once_in_each_epoch(trained)
    (landed,) = run_folders(trained.home / "landing")
    assert read_tables(landed)["run"]["host_id"].to_pylist() == [fleet_host_id]
    assert not [name for name in left if name.startswith(owner.PREFIX)]


def test_it_ends_although_its_controller_did_before_it_looked() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ended = subprocess.run(
        [sys.executable, "-m", janitor.__name__, str(gone.pid)],
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0
