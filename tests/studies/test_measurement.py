"""What probes return lands at once, failures too, and nothing is left behind."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from forecasting.inputs import inputs_of_study
from profilers.clusters import host_id as cluster_host_id
from profilers.clusters.base import LoopbackCluster
from profilers.clusters.fleet import VARIABLE
from profilers.steady.host import host_id
from studies.measurement import Clusters, divide_by_machine, measure, profile, run_in_parallel
from studies.messages import Progress
from studies.rounds import Round, open_round
from studies.study import read_study
from tests.pipelines.ran import MEASURED
from tests.profilers.clusters.machines import machines
from tests.synthetic import DDP, PaperProbes, write_study
from warehouse.landing import landed_runs
from warehouse.records import ProbeFailed, Scenario


class Listener(Progress):
    """Keeps what was told, and what was finished."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.told: list[str] = []

    def say(self, text: str) -> None:
        self.told.append(text)

    def finished(self, task: str) -> None:
        self.done.append(task)


@pytest.fixture
def landing(home: Path) -> Path:
    """Return a landing folder that is not there yet."""
    return home / "landing"


def now(study_file: Path, landing: Path) -> Round:
    """Return the round to be done of the study, with contention probed."""
    study = read_study(study_file)
    probed = {**study.probes, "contention": {"flows": [1, 2], "seconds": 1, "trials": 2}}
    study = study.model_copy(update={"probes": probed})
    return open_round(study, inputs_of_study(study), "loopback", host_id(), landed_runs(landing))


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (partial(profile, probe="contention"), ["probe contention, unshaped, emu.native.c25"]),
        (
            partial(profile, probe="tf_trace"),
            [
                "profile small_cnn 16px b4, unshaped, W=1",
                "profile alexnet 64px b4, unshaped, W=1",
            ],
        ),
        (measure, MEASURED),
    ],
)
def test_what_is_missing_is_run_once(
    run: Callable[..., Round],
    names: list[str],
    study_file: Path,
    landing: Path,
    probes: PaperProbes,
) -> None:
    listener = Listener()
    after = run(now(study_file, landing), landing=landing, progress=listener)
    assert listener.done == names
    assert not set(names) & {need.title for need in after.missing}
    assert len(list(landing.iterdir())) == len(names)
    again = run(now(study_file, landing), landing=landing, progress=listener)
    assert again == after
    assert listener.done == names


@pytest.mark.sshd
def test_node_types_on_machines_of_their_own_are_profiled_at_the_same_time(
    tmp_path: Path, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For real: passes of a small network on two sshd's of this host."""
    text = DDP.replace("emu.native.c25", "lab.small").replace("emu.avx2.c25", "lab.large")
    text = text.replace("resnet18", "small_cnn").replace("[1, 8]", "[1, 2]")
    listener = Listener()
    with machines(tmp_path, 2, "lab.small", "lab.large") as fleet:
        monkeypatch.setenv(VARIABLE, str(fleet))
        study = read_study(write_study(tmp_path, text))
        round_ = open_round(study, inputs_of_study(study), "ssh", cluster_host_id("ssh"), [])
        after = profile(round_, "torch_compute", landing, listener)
    small, large = after.runs
    assert max(small.started_at, large.started_at) < min(small.ended_at, large.ended_at)
    # Tests beside this one may measure too, and are waited for.
    lines = [text for text in listener.told if not text.startswith("waiting for")]
    assert {text.partition(": ")[0] for text in lines} == {"lab.small", "lab.large"}
    assert not list(landing.glob(".tmp*"))


@pytest.mark.parametrize(
    ("run", "name", "fail_at"),
    [
        (partial(profile, probe="links"), "probe links, unshaped", "links"),
        (
            partial(profile, probe="tf_trace"),
            "profile alexnet 64px b4, unshaped, W=1",
            "profile alexnet",
        ),
        (measure, MEASURED[1], MEASURED[1]),
    ],
)
def test_a_failed_run_lands_and_is_told(
    run: Callable[..., Round],
    name: str,
    fail_at: str,
    study_file: Path,
    landing: Path,
    probes: PaperProbes,
) -> None:
    probes.fail_at = fail_at
    with pytest.raises(ProbeFailed, match="no paper left; its run has landed") as caught:
        run(now(study_file, landing), landing=landing, progress=Progress())
    assert str(caught.value).startswith(f"{name} failed: ")
    (failed,) = [run for run in landed_runs(landing) if run.status == "failed"]
    assert failed.error is not None
    assert "no paper left" in failed.error
    assert name in {need.title for need in now(study_file, landing).missing}
    assert not [path for path in landing.iterdir() if path.name.startswith(".")]


def test_each_scenario_has_landed_before_the_next_is_measured(
    study_file: Path, landing: Path, probes: PaperProbes
) -> None:
    landed: list[int] = []

    def throughput(scenario: Scenario) -> float:
        landed.extend({len(landed_runs(landing))} - set(landed))
        return 1.0

    probes.throughput = throughput
    measure(now(study_file, landing), landing, Progress())
    assert landed == [0, 1, 2, 3]


def test_an_interrupt_leaves_whole_runs_only(
    study_file: Path, landing: Path, probes: PaperProbes
) -> None:
    def throughput(scenario: Scenario) -> float:
        if scenario.strategy.workers == 2:
            raise KeyboardInterrupt
        return 1.0

    probes.throughput = throughput
    with pytest.raises(KeyboardInterrupt):
        measure(now(study_file, landing), landing, Progress())
    (run,) = landed_runs(landing)
    assert [path.name for path in landing.iterdir()] == [run.run_id]


WAIT_S = 30.0


class Cluster(LoopbackCluster):
    """Of no nodes; counts how often it was taken down."""

    def __init__(self) -> None:
        super().__init__((), None)
        self.downs = 0
        self.is_down = threading.Event()

    def down(self) -> None:
        super().down()
        self.downs += 1
        self.is_down.set()


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], []),
        (["a", "b", "a"], [["a", "a"], ["b"]]),
        (["a", "b", "ab", "c"], [["a", "b", "ab"], ["c"]]),
        (["ab", "bc", "d", "ac"], [["d"], ["ab", "bc", "ac"]]),
    ],
)
def test_what_needs_the_same_kind_of_machine_is_in_one_lane(
    items: list[str], expected: list[list[str]]
) -> None:
    assert sorted(divide_by_machine(items, frozenset)) == sorted(expected)


def test_lanes_run_at_the_same_time_and_each_in_its_order() -> None:
    met, order = threading.Barrier(2, timeout=WAIT_S), []

    def run(item: str, clusters: Clusters) -> None:
        if item[1] == "1":
            met.wait()
        order.append(item)

    run_in_parallel([["a1", "a2"], ["b1", "b2"]], run)
    assert order.index("a1") < order.index("a2")
    assert order.index("b1") < order.index("b2")


def test_a_failure_ends_its_lane_only_and_is_raised_at_the_end() -> None:
    failed, done = threading.Event(), []

    def run(item: str, clusters: Clusters) -> None:
        if item == "a1":
            failed.set()
            raise ProbeFailed("a1 failed")
        assert failed.wait(WAIT_S)
        done.append(item)

    with pytest.raises(ProbeFailed, match="a1 failed"):
        run_in_parallel([["a1", "a2"], ["b1", "b2"]], run)
    assert done == ["b1", "b2"]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let SIGINT be what Ctrl-C is, also where tests run in a process that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_takes_down_what_is_up_and_nothing_begins_after_it() -> None:
    up, pair, begun = threading.Barrier(2, timeout=WAIT_S), [Cluster(), Cluster()], []

    def run(item: int, clusters: Clusters) -> None:
        begun.append(item)
        with clusters.opened(pair[item]) as cluster:
            if up.wait() == 0:
                # Once the main thread waits for its lanes.
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            # A probe ends when its programs are killed, which is when its cluster is taken down.
            assert isinstance(cluster, Cluster)
            assert cluster.is_down.wait(WAIT_S)
            clusters.check_not_stopped()

    several: Sequence[Sequence[int]] = [[0, 0], [1, 1]]
    with pytest.raises(KeyboardInterrupt):
        run_in_parallel(several, run)
    assert sorted(begun) == [0, 1]
    assert all(cluster.downs >= 2 for cluster in pair), "by who waited, and by its own lane"
