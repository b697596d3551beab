"""Anchors are measured first, every few hours, on another start of the host, and at the end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forecasting.chosen import asking_of
from studies import anchors
from studies.anchors import ANCHORS_NAME, Anchoring, visit_s
from studies.plan import REPORT_NAME, tasks
from studies.progress import Progress
from studies.rounds import Round, open_round, refreshed
from studies.study import Study, read_study
from tests.synthetic import DDP, HOST, landed, opened, write_study
from warehouse.records import Backend, BadInput, ProbeFailed, Run

ANCHORED = (
    DDP
    + """
anchors:
  every_hours: 2
  scenarios:
    - {dnn: [alexnet, resnet18], framework: pytorch, strategy: all_reduce, image_size: 64,
       batch_size: 4, worker: emu.native.c25, link_mbps: 800, workers: 2}
"""
)
START = datetime(2030, 1, 1, tzinfo=UTC)


class PaperHost:
    """A clock that stands still unless it is told to go on, and what landed on this host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.boot, self.runs = START, "first", list[Run]()
        self.visits = list[tuple[str, int, int]]()
        self.fail_at = -1
        monkeypatch.setattr("studies.anchors.clock.now", lambda: self.now)
        boot = "studies.anchors.host.description"
        monkeypatch.setattr(boot, lambda: {"boot_id": self.boot})
        monkeypatch.setattr(anchors, "landed_runs", lambda _: list(self.runs))
        monkeypatch.setattr(anchors, "profile", self.profile)

    def profile(self, round_: Round, probe: str, landing: Path, progress: Progress) -> Round:
        """Land what the round lacks of a probe, five minutes each."""
        missing = round_.missing_of(probe, "profile")
        self.visits.append((round_.study.name, round_.repeat, len(missing)))
        for place, need in enumerate(missing):
            if place == self.fail_at:
                raise ProbeFailed("no paper left")
            began, self.now = self.now, self.now + timedelta(minutes=5)
            self.runs.append(
                landed(
                    need,
                    round_.repeat,
                    run_id=f"{len(self.runs)}",
                    study=round_.study.name,
                    started_at=began,
                    ended_at=self.now,
                    host={"boot_id": self.boot},
                )
            )
        return refreshed(round_, self.runs)

    def passes(self, minutes: float) -> None:
        """Let time pass."""
        self.now += timedelta(minutes=minutes)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> PaperHost:
    """Return a host on which nothing has landed."""
    return PaperHost(monkeypatch)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Return a study with two anchors."""
    return read_study(write_study(tmp_path, ANCHORED))


def anchoring(study: Study, backend: Backend = "emulated") -> Anchoring:
    return Anchoring(opened(study, backend), Path("nowhere"), Progress())


def test_they_are_measured_before_anything_else_as_a_round_of_a_study_of_their_own(
    study: Study, host: PaperHost
) -> None:
    anchoring(study).before(60)
    assert host.visits == [("paper.anchors", 1, 2)]
    assert {run.study for run in host.runs} == {"paper.anchors"}
    assert {run.purpose for run in host.runs} == {"profile"}
    assert opened(study, runs=host.runs).repeat == 1
    assert not opened(study, runs=host.runs).runs


def test_they_are_measured_again_after_so_many_hours_and_not_sooner(
    study: Study, host: PaperHost
) -> None:
    of = anchoring(study)
    of.before(60)
    host.passes(119)
    of.before(60)
    assert len(host.visits) == 1
    host.passes(1)
    of.before(60)
    assert host.visits[1:] == [("paper.anchors", 2, 2)]
    # Each asset makes one of its own: what has landed tells it.
    anchoring(study).before(60)
    assert len(host.visits) == 2


def test_they_are_measured_on_another_start_of_the_host(study: Study, host: PaperHost) -> None:
    anchoring(study).before(60)
    host.boot = "second"
    anchoring(study).before(60)
    anchoring(study).before(60)
    assert [visit for _, visit, _ in host.visits] == [1, 2]


def test_they_are_measured_at_the_end_unless_they_just_were(study: Study, host: PaperHost) -> None:
    of = anchoring(study)
    of.before(60)
    host.passes(9)
    of.at_the_end()
    assert len(host.visits) == 1
    host.passes(1)
    of.at_the_end()
    of.at_the_end()
    assert len(host.visits) == 2


def test_half_a_visit_is_none_and_is_not_gone_on_with(study: Study, host: PaperHost) -> None:
    host.fail_at = 1
    with pytest.raises(ProbeFailed, match="no paper left"):
        anchoring(study).before(60)
    assert len(host.runs) == 1
    host.fail_at = -1
    host.passes(300)
    anchoring(study).before(60)
    assert host.visits[-1] == ("paper.anchors", 2, 2)


def test_a_host_of_another_kind_counts_for_nothing(study: Study, host: PaperHost) -> None:
    anchoring(study).before(60)
    host.runs = [run.model_copy(update={"backend": "loopback"}) for run in host.runs]
    anchoring(study).before(60)
    assert len(host.visits) == 2


@pytest.mark.parametrize("backend", ["ssh", "ec2"])
def test_a_fleet_has_none(study: Study, host: PaperHost, backend: Backend) -> None:
    of = anchoring(study, backend)
    of.before(60)
    of.at_the_end()
    assert host.visits == []


def test_a_study_without_anchors_measures_none(tmp_path: Path, host: PaperHost) -> None:
    of = anchoring(read_study(write_study(tmp_path, DDP)))
    of.before(60)
    of.at_the_end()
    assert host.visits == []


def test_progress_hears_of_visits_and_not_of_runs(study: Study, host: PaperHost) -> None:
    class Listener(Progress):
        def __init__(self) -> None:
            self.told, self.done = list[str](), list[str]()

        def say(self, text: str) -> None:
            self.told.append(text)

        def finished(self, task: str) -> None:
            self.done.append(task)

    listener = Listener()
    Anchoring(opened(study), Path("nowhere"), listener).before(60)
    assert (listener.told, listener.done) == (["anchors of paper"], [ANCHORS_NAME])


def test_an_anchor_that_is_tested_is_refused_and_one_that_is_trained_is_not(tmp_path: Path) -> None:
    tested = ANCHORED.replace("image_size: 64", "image_size: 32")
    with pytest.raises(BadInput, match=r"resnet18 32px b4.* is a test scenario.*not hidden"):
        read_study(write_study(tmp_path, tested))
    anchor = ANCHORED.partition("  scenarios:\n")[2]
    study = read_study(write_study(tmp_path, f"{ANCHORED}train:\n{anchor}"))
    assert study.anchoring is not None
    assert study.anchoring.curves == study.curves[:2]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("every_hours: 0", "every_hours"), ("every_hours: .inf", "every_hours")],
)
def test_anchors_without_an_interval_are_refused(tmp_path: Path, wrong: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_study(write_study(tmp_path, ANCHORED.replace("every_hours: 2", wrong)))


def test_its_study_profiles_with_the_judging_probe_as_it_is_set(study: Study) -> None:
    of = study.anchoring
    assert of is not None
    assert (of.name, of.only_profiles, of.anchoring) == ("paper.anchors", True, None)
    assert list(of.probes) == ["torch_throughput"]
    needs = open_round(of, asking_of(of), "emulated", HOST, ()).needs
    assert [need.settings["iterations"] for need in needs] == [20, 20]
    assert all(need.profiles for need in needs)


def test_a_plan_has_a_visit_before_every_two_hours_and_at_both_ends(study: Study) -> None:
    """Profiles end with one, and so do the test scenarios."""
    round_ = opened(study)
    names = [task.name for task in tasks(round_)]
    assert (names[0], names[-2], names[-1]) == (ANCHORS_NAME, ANCHORS_NAME, REPORT_NAME)
    assert names.count(ANCHORS_NAME) == 3
    profiles = sum(need.profiles for need in round_.needs)
    assert names[profiles + 1] == ANCHORS_NAME
    assert study.anchors is not None
    at_once = study.anchors.model_copy(update={"every_hours": 1e-6})
    often = tasks(opened(study.model_copy(update={"anchors": at_once})))
    visits = [task for task in often if task.name == ANCHORS_NAME]
    assert len(visits) == len(round_.needs) + 1
    assert {visit.expected_s for visit in visits} == {visit_s(study, "emulated")}


def test_what_a_visit_takes_is_expected_as_of_any_other_run(study: Study, tmp_path: Path) -> None:
    assert study.anchoring is not None
    of = open_round(study.anchoring, asking_of(study), "emulated", HOST, ())
    assert visit_s(study, "emulated") == sum(task.expected_s for task in tasks(of)) > 0
    assert visit_s(read_study(write_study(tmp_path, DDP)), "emulated") == 0
