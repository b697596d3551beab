"""Jobs of plain processes that are killed, frozen and told to go: nothing is trained."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.runtime.attempt import train
from pipelines.runtime.job_file import read_job
from pipelines.runtime.job_store import EventLogEntry
from pipelines.runtime.plan import Infeasible, LimitRelaxation
from pipelines.runtime.state import JobState
from tests.pipelines.runtime.jobs import FAST, SLOW, SPARE, profile, write_job
from tests.pipelines.runtime.metadata_service import TERMINATE, metadata_service
from warehouse.landing import read_tables, run_folders
from warehouse.records import StepcastError

ITERATIONS = 60
COUNTING = "tests.pipelines.runtime.counting_rank"


class Ran:
    """A job that has ended: how, and its story; `asked` is what was found infeasible."""

    def __init__(
        self,
        folder: Path,
        answer: int | None = None,
        notices: Callable[[str], str] | None = None,
        program: str = COUNTING,
        silence_s: float = 20.0,
        stop_at: str | None = None,
        told: Callable[[EventLogEntry], None] = lambda _: None,
        **changes: object,
    ) -> None:
        self.asked: list[Infeasible] = []

        def answered(infeasible: Infeasible, state: JobState) -> LimitRelaxation | None:
            self.asked.append(infeasible)
            return None if answer is None else infeasible.ways[answer]

        heard: list[EventLogEntry] = []

        def tell(entry: EventLogEntry) -> None:
            heard.append(entry)
            told(entry)
            if entry.event == stop_at:
                raise KeyboardInterrupt

        changes = {"iterations": ITERATIONS, "beat_s": 0.05, "silence_s": silence_s, **changes}
        job = read_job(write_job(folder, **changes))
        keeper, self.state = train(
            *(job, profile(), "loopback", folder / "home", tell, answered),
            program=program,
            notices=notices,
        )
        self.story = keeper.story
        assert heard == self.story[len(self.story) - len(heard) :]

    def of(self, event: str) -> list[EventLogEntry]:
        """Return the entries of one kind."""
        return [entry for entry in self.story if entry.event == event]

    @property
    def losses(self) -> list[tuple[str | None, object]]:
        """Types of the nodes that were lost, and why."""
        return [(entry.node_type, entry.detail["reason"]) for entry in self.of("lost")]

    @property
    def plans(self) -> list[object]:
        """Configurations that were chosen."""
        return [entry.detail["configuration"] for entry in self.of("planned")]


def interrupt(node_type: str, at: int, how: str) -> dict[str, object]:
    """Return an interruption as a job file has it."""
    return {"node_type": node_type, "after_iterations": at, "how": how}


def test_a_notice_and_silence_are_losses_like_any(tmp_path: Path) -> None:
    losses = [interrupt(FAST, 15, "notice"), interrupt(SLOW, 35, "freeze")]
    ran = Ran(tmp_path, interruptions=losses, silence_s=3.0)
    assert (ran.state.phase, ran.state.step) == ("finished", ITERATIONS)
    assert ran.losses == [(FAST, "notice"), (SLOW, "silent")]
    assert ran.plans == [
        f"2 {FAST}@4",
        f"1 {FAST}@4 + 2 {SLOW}@2",
        f"1 {FAST}@4 + 1 {SLOW}@2 + 1 {SPARE}@2",
    ]
    began = ran.of("training")
    saved = [entry.step for entry in ran.of("saved") if entry.detail["asked"]]
    assert [entry.step for entry in began] == [0, *saved]
    assert [entry.detail["nodes"] for entry in began][1:] == [
        ["node1", "node2", "node3"],
        ["node1", "node3", "node4"],
    ]
    launches, restarts = ran.state.launch, ran.state.restart
    assert len(launches.seen_s) == 3, "observed each time that nodes were launched"
    assert restarts.seen_s == ()


def test_ec2_tells_a_node_by_its_metadata_service(tmp_path: Path) -> None:
    with metadata_service() as (url, service):
        # A node asks a service of its own: here one that tells them apart by their addresses.
        service.notices["/node0"] = TERMINATE
        ran = Ran(tmp_path, notices=lambda name: f"{url}/{name}")
    assert ran.state.phase == "finished"
    assert [(entry.node, entry.detail["reason"]) for entry in ran.of("lost")] == [
        ("node0", "notice")
    ]
    assert ran.plans == [f"2 {FAST}@4", f"1 {FAST}@4 + 2 {SLOW}@2"]


def test_a_program_that_cannot_start_says_why(tmp_path: Path) -> None:
    ran = Ran(tmp_path, program="no.such.program")
    assert ran.state.phase == "aborted"
    assert {reason for _, reason in ran.losses} == {"ended"}
    assert "No module named 'no'" in str(ran.of("lost")[0].detail["said"])


def test_all_nodes_may_go_and_the_last_checkpoint_counts(tmp_path: Path) -> None:
    losses = [interrupt(FAST, 20, "kill"), interrupt(SLOW, 40, "kill")]
    ran = Ran(tmp_path, answer=-1, interruptions=losses, offers=offers(fast=2, slow=2))
    assert ran.state.phase == "finished"
    assert ran.losses == [(FAST, "ended"), (SLOW, "ended")]
    (infeasible,) = ran.asked
    assert "cannot hold the batch of 8 samples" in infeasible.reason
    (answered,) = ran.of("answered")
    assert answered.detail["answer"] == f"ask for {SLOW} spot, {FAST} spot again"
    assert ran.plans[-1] == f"2 {FAST}@4"


def test_a_deadline_that_nothing_meets_is_told_before_anything_is_rented(tmp_path: Path) -> None:
    ran = Ran(tmp_path, deadline_s=0.5)
    assert (ran.state.phase, ran.of("launch")) == ("aborted", [])
    assert ran.state.error is not None
    assert "raise the deadline from 0 s" in ran.asked[0].ways[0].text


@pytest.mark.parametrize(("stop_at", "least"), [("lost", 15), ("training", 0), ("launch", 0)])
def test_who_comes_back_goes_on_from_what_was_saved(
    stop_at: str, least: int, tmp_path: Path
) -> None:
    losses = [interrupt(FAST, 15, "kill")]
    with pytest.raises(KeyboardInterrupt):
        Ran(tmp_path, interruptions=losses, stop_at=stop_at)
    ran = Ran(tmp_path, interruptions=losses)
    assert (ran.state.phase, ran.state.step) == ("finished", ITERATIONS)
    (stopped,), (resumed,) = ran.of("stopped"), ran.of("resumed")
    assert stopped.at_s <= resumed.at_s
    assert resumed.step is not None and resumed.step >= least
    after = ran.story[ran.story.index(resumed) :]
    assert next(entry.step for entry in after if entry.event == "training") == resumed.step
    assert len(ran.of("lost")) == 1, "what was lost by then is not lost again"
    spent_usd = stopped.detail["cost_usd"]
    assert isinstance(spent_usd, float)
    assert spent_usd <= ran.state.spent_usd


@pytest.mark.parametrize("room_bytes", [0, 4_000])
def test_a_finished_job_lands_and_does_not_train_again(tmp_path: Path, room_bytes: int) -> None:
    """The disk is full once it has finished: of what is left to do, nothing or all but the run."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(entry: EventLogEntry) -> None:
        if entry.event == "finished":
            resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, usual[1]))

    try:
        with pytest.raises(StepcastError, match="File too large"):
            Ran(tmp_path, told=fill, iterations=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    (folder,) = (tmp_path / "home" / "training" / "small").iterdir()
    with (folder / "story.jsonl").open("a") as file:
        file.write('{"at_s":2.')
    landing = tmp_path / "home" / "landing"
    assert not list(run_folders(landing))
    ran = Ran(tmp_path, iterations=10)
    assert [entry.event for entry in ran.story].count("training") == 1, "it was trained before"
    assert ran.of("finished") == [ran.story[-1]]
    (landed,) = run_folders(landing)
    tables = read_tables(landed)
    assert tables["runtime_event"]["event"].to_pylist() == [entry.event for entry in ran.story]
    assert tables["run"]["status"].to_pylist() == ["ok"]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def offers(fast: int, slow: int) -> list[dict[str, object]]:
    """Return offers of two types as a job file has them."""
    return [
        {"node_type": FAST, "market": "spot", "usd_per_hour": 0.06, "capacity": fast},
        {"node_type": SLOW, "market": "spot", "usd_per_hour": 0.04, "capacity": slow},
    ]
