"""The controller, event by event."""

import pytest

from pipelines.runtime.controller import Controller
from pipelines.runtime.messages import (
    AskUser,
    CarryOutPlan,
    CheckpointSaved,
    ClockTick,
    Decision,
    EndJob,
    Event,
    Heartbeat,
    JobResumed,
    JobStarted,
    LaunchNode,
    NodeLost,
    NodeReady,
    ReleaseNode,
    RestartProgram,
    SaveCheckpoint,
    StartTraining,
    TrainingFailed,
    UserChoice,
)
from pipelines.runtime.plan import MarketNodeType
from pipelines.runtime.state import JobState, LearnedDurations
from tests.pipelines.runtime import jobs
from tests.pipelines.runtime.jobs import FAST, SLOW, SPARE

SILENCE_S = 10.0


class Told:
    """A controller, told one event after the other; `last` is what it decided."""

    def __init__(self, iterations: int = 100, capacity: int = 2, **limits: float) -> None:
        self.controller = Controller(jobs.planner(capacity), SILENCE_S)
        self.state = JobState(
            iterations=iterations, launch=LearnedDurations(assumed_s=5.0), **limits
        )
        self.last: tuple[Decision, ...] = ()

    def tell(self, at_s: float, *events: Event) -> tuple[Decision, ...]:
        """Tell it events; return what it decides after the last one."""
        for event in events:
            self.state, self.last = self.controller.advance(self.state, at_s, event)
        return self.last

    def training(self) -> "Told":
        """Begin to train on two fast nodes at 5 s."""
        self.tell(0, JobStarted())
        assert isinstance(self.tell(5, NodeReady("node0"), NodeReady("node1"))[0], StartTraining)
        return self


def test_training_begins_when_all_nodes_are_ready() -> None:
    controller = Told()
    plan, *launches = controller.tell(0, JobStarted())
    assert isinstance(plan, CarryOutPlan)
    assert launches == [
        LaunchNode("node0", MarketNodeType(FAST, "spot")),
        LaunchNode("node1", MarketNodeType(FAST, "spot")),
    ]
    assert controller.tell(4, NodeReady("node1")) == ()
    assert controller.tell(6, NodeReady("node0")) == (
        StartTraining(("node0", "node1"), (4, 4), 0, 1),
    )
    assert controller.state.launch.seen_s == (6,), "until the last of them is there"


def test_the_smallest_live_rank_saves_and_leads_from_then_on() -> None:
    controller = Told().training()
    controller.tell(9, Heartbeat("node0", 7), Heartbeat("node1", 7))
    assert controller.tell(10, NodeLost("node0", "ended")) == (
        ReleaseNode("node0", "ended"),
        SaveCheckpoint("node1"),
    )
    plan, *rest = controller.tell(11, CheckpointSaved(8, asked=True))
    assert isinstance(plan, CarryOutPlan)
    assert plan.plan.forecast.configuration.label == f"1 {FAST}@4 + 2 {SLOW}@2"
    assert rest == [
        RestartProgram("node1"),
        LaunchNode("node2", MarketNodeType(SLOW, "spot")),
        LaunchNode("node3", MarketNodeType(SLOW, "spot")),
    ]
    began = controller.tell(15, NodeReady("node3"), NodeReady("node2"), NodeReady("node1"))
    assert began == (StartTraining(("node1", "node2", "node3"), (4, 2, 2), 8, 2),)
    assert controller.state.detach.seen_s == (1,)


def test_a_saver_that_is_lost_is_followed_by_the_next() -> None:
    controller = Told().training()
    controller.tell(10, NodeLost("node0", "ended"))
    assert controller.tell(11, NodeLost("node1", "ended")) == (
        ReleaseNode("node1", "ended"),
        SaveCheckpoint(None),
    )
    decisions = controller.tell(11, CheckpointSaved(5, asked=True))
    kinds = [decision.kind.node_type for decision in decisions if isinstance(decision, LaunchNode)]
    assert sorted(kinds) == sorted([SLOW, SLOW, SPARE, SPARE])
    assert controller.state.step == 5, "the last checkpoint that there was"


def test_a_saver_that_says_nothing_is_lost() -> None:
    controller = Told().training()
    controller.tell(10, NodeLost("node0", "ended"))
    controller.tell(69, Heartbeat("node1", 3), ClockTick())
    assert controller.state.phase == "saving"
    controller.tell(70.5, Heartbeat("node1", 3))
    assert controller.tell(70.6, ClockTick()) == (
        ReleaseNode("node1", "no checkpoint"),
        SaveCheckpoint(None),
    )


def test_silence_is_a_loss() -> None:
    controller = Told().training()
    controller.tell(14, Heartbeat("node0", 3), ClockTick())
    assert controller.state.phase == "training"
    assert controller.tell(16, ClockTick()) == (
        ReleaseNode("node1", "silent"),
        SaveCheckpoint("node0"),
    )


def test_a_node_that_does_not_come_up_is_lost() -> None:
    controller = Told()
    controller.tell(0, JobStarted())
    controller.tell(4, NodeReady("node0"))
    controller.tell(99, Heartbeat("node0", 0), ClockTick())
    assert controller.state.phase == "launching"
    controller.tell(101, Heartbeat("node0", 0))
    release, plan, *launches = controller.tell(101, ClockTick())
    assert release == ReleaseNode("node1", "not launched")
    assert isinstance(plan, CarryOutPlan)
    assert {launch.kind.node_type for launch in launches if isinstance(launch, LaunchNode)} == {
        SLOW
    }
    assert not any(isinstance(launch, RestartProgram) for launch in launches), (
        "node0 has not begun to train"
    )


def test_a_loss_while_launching_needs_no_checkpoint() -> None:
    controller = Told().training()
    controller.tell(10, NodeLost("node0", "ended"), CheckpointSaved(3, asked=True))
    decisions = controller.tell(12, NodeLost("node2", "ended"))
    assert decisions[0] == ReleaseNode("node2", "ended")
    assert [decision.node for decision in decisions if isinstance(decision, LaunchNode)] == [
        "node4"
    ]
    assert controller.state.depleted == ((FAST, "spot"), (SLOW, "spot"))


def test_a_plan_that_counted_on_lost_progress_is_made_anew() -> None:
    controller = Told().training()
    controller.tell(9, Heartbeat("node0", 50), Heartbeat("node1", 50))
    controller.tell(10, NodeLost("node0", "ended"), ClockTick())
    assert controller.state.plan is not None and controller.state.plan.iterations == 50
    plan = controller.tell(11, CheckpointSaved(40, asked=True))[0]
    assert isinstance(plan, CarryOutPlan)
    assert plan.plan.iterations == 60


def test_a_plan_that_was_made_while_saving_is_carried_out() -> None:
    controller = Told().training()
    controller.tell(9, Heartbeat("node0", 50), Heartbeat("node1", 50))
    controller.tell(10, NodeLost("node0", "ended"), ClockTick())
    plan = controller.state.plan
    assert plan is not None and plan.wait_s == 5 + 5, "detaching and launching"
    assert controller.tell(11, CheckpointSaved(50, asked=True))[0] == CarryOutPlan(plan)
    controller = Told().training()
    controller.tell(10, NodeLost("node0", "ended"), ClockTick(), NodeLost("node1", "ended"))
    assert controller.state.plan is None, "it counted on node1"


def test_nodes_that_are_left_go_on_alone_where_that_is_best() -> None:
    controller = Told(capacity=4)
    controller.tell(0, JobStarted())
    controller.state = controller.state.but(
        nodes=tuple(
            node.but(node_type=SLOW, usd_per_hour=jobs.PRICES[SLOW])
            for node in controller.state.nodes
        )
    )
    # Four slow nodes were up beside a fast one that is lost: nobody has to be launched.
    four = [
        controller.state.nodes[0].but(name=f"node{i}", ready=True, up_s=0.0, trained=True)
        for i in range(4)
    ]
    fast = four[0].but(name="node9", node_type=FAST, usd_per_hour=jobs.PRICES[FAST])
    controller.state = controller.state.but(nodes=(*four, fast), phase="training")
    controller.tell(10, NodeLost("node9", "ended"))
    plan, *rest = controller.tell(11, CheckpointSaved(3, asked=True))
    assert isinstance(plan, CarryOutPlan)
    assert plan.plan.forecast.configuration.label == f"4 {SLOW}@2"
    assert rest == [RestartProgram(f"node{i}") for i in range(4)]


def test_training_that_breaks_with_all_alive_is_begun_again_once_it_got_anywhere() -> None:
    controller = Told().training()
    controller.tell(
        20,
        Heartbeat("node0", 7),
        Heartbeat("node1", 7),
        TrainingFailed("node0", "connection reset"),
    )
    controller.tell(39, Heartbeat("node0", 7), Heartbeat("node1", 7), ClockTick())
    assert controller.state.phase == "training"
    assert controller.tell(41, Heartbeat("node0", 7), Heartbeat("node1", 7), ClockTick()) == (
        SaveCheckpoint("node0"),
    )
    decisions = controller.tell(42, CheckpointSaved(7, asked=True))
    assert decisions[1:] == (RestartProgram("node0"), RestartProgram("node1"))
    assert controller.state.depleted == ()


def test_training_that_breaks_at_once_is_aborted() -> None:
    controller = Told().training()
    controller.tell(
        20, Heartbeat("node0", 0), Heartbeat("node1", 0), TrainingFailed("node1", "no such layer")
    )
    end = controller.tell(41, Heartbeat("node0", 0), Heartbeat("node1", 0), ClockTick())[-1]
    assert end == EndJob("training failed with all nodes alive: no such layer")


def test_a_loss_explains_what_broke() -> None:
    controller = Told().training()
    controller.tell(10, TrainingFailed("node1", "connection reset"), NodeLost("node0", "ended"))
    assert controller.state.broken is None


def test_the_last_checkpoint_ends_the_job() -> None:
    controller = Told(iterations=10).training()
    assert controller.tell(9, CheckpointSaved(5, asked=False)) == ()
    assert controller.tell(12, CheckpointSaved(10, asked=False)) == (
        ReleaseNode("node0"),
        ReleaseNode("node1"),
        EndJob(None),
    )
    hours = 2 * (12 - 5) / 3600
    assert controller.state.spent_usd == pytest.approx(hours * jobs.PRICES[FAST])
    assert controller.tell(13, NodeLost("node0", "ended")) == ()


def test_a_loss_after_the_last_iteration_only_costs_its_checkpoint() -> None:
    controller = Told(iterations=10).training()
    controller.tell(12, Heartbeat("node0", 10), Heartbeat("node1", 10), NodeLost("node0", "ended"))
    assert controller.tell(13, CheckpointSaved(10, asked=True)) == (
        ReleaseNode("node1"),
        EndJob(None),
    )


def test_who_comes_back_finds_the_nodes_gone_and_nothing_depleted() -> None:
    controller = Told().training()
    controller.tell(15, Heartbeat("node0", 20), Heartbeat("node1", 20))
    decisions = controller.tell(500, JobResumed(18))
    assert [decision.node for decision in decisions if isinstance(decision, LaunchNode)] == [
        "node2",
        "node3",
    ]
    assert controller.state.depleted == ()
    assert controller.state.spent_usd == pytest.approx(2 * 10 * jobs.PRICES[FAST] / 3600), (
        "until 15 s"
    )
    assert controller.tell(504, NodeReady("node2"), NodeReady("node3")) == (
        StartTraining(("node2", "node3"), (4, 4), 18, 2),
    )


def test_who_comes_back_after_the_last_checkpoint_is_done() -> None:
    controller = Told(iterations=10).training()
    assert controller.tell(500, JobResumed(10)) == (EndJob(None),)


def test_nothing_feasible_is_asked_and_thinking_takes_time() -> None:
    controller = Told(deadline_s=30.0).training()
    controller.tell(10, Heartbeat("node0", 2), Heartbeat("node1", 2), NodeLost("node0", "ended"))
    (ask,) = controller.tell(11, CheckpointSaved(2, asked=True))
    assert isinstance(ask, AskUser)
    way = ask.infeasible.ways[0]
    assert way.deadline_s is not None and way.deadline_s > 30
    controller.tell(71, Heartbeat("node1", 2))
    decisions = controller.tell(71, UserChoice(way))
    assert isinstance(decisions[0], CarryOutPlan)
    assert controller.state.deadline_s == pytest.approx(way.deadline_s + 60)


@pytest.mark.parametrize(
    "event", [NodeReady("node7"), Heartbeat("node7", 3), NodeLost("node7", "ended")]
)
def test_nobody_listens_to_nodes_that_are_not_there(event: Event) -> None:
    controller = Told().training()
    before = controller.state
    assert controller.tell(6, event) == ()
    assert controller.state == before.but(at_s=6)


def test_aborting_gives_everything_back() -> None:
    controller = Told(deadline_s=30.0).training()
    controller.tell(10, NodeLost("node0", "ended"), CheckpointSaved(2, asked=True))
    release, end = controller.tell(12, UserChoice(None))
    assert release == ReleaseNode("node1")
    assert isinstance(end, EndJob) and end.error is not None
    assert controller.state.phase == "aborted"
