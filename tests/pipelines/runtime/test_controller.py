"""The controller, event by event."""

import pytest

from models.choosing.offers import Offer
from pipelines.runtime.controller import Controller
from pipelines.runtime.events import (
    Answered,
    Ask,
    Beat,
    Began,
    Broken,
    Decision,
    End,
    Event,
    Launch,
    Lost,
    Proceed,
    Ready,
    Release,
    Restart,
    Resumed,
    Save,
    Saved,
    Tick,
    Train,
)
from pipelines.runtime.planning import Kind, Planner
from pipelines.runtime.state import Learned, State
from tests.pipelines.runtime import jobs
from tests.pipelines.runtime.jobs import FAST, SLOW, SPARE

SILENCE_S = 10.0


class Told:
    """A controller, told one event after the other; `last` is what it decided."""

    def __init__(self, iterations: int = 100, capacity: int = 2, **limits: float) -> None:
        offers = tuple(
            Offer(node_type=name, market="spot", usd_per_hour=usd, capacity=capacity)
            for name, usd in jobs.PRICES.items()
        )
        performance = jobs.profile().performance
        planner = Planner(performance, offers, jobs.GLOBAL_BATCH, "cost")
        self.controller = Controller(planner, SILENCE_S)
        self.state = State(iterations=iterations, launch=Learned(assumed_s=5.0), **limits)
        self.last: tuple[Decision, ...] = ()

    def tell(self, at_s: float, *events: Event) -> tuple[Decision, ...]:
        """Tell it events; return what it decides after the last one."""
        for event in events:
            self.state, self.last = self.controller.advance(self.state, at_s, event)
        return self.last

    def training(self) -> "Told":
        """Begin to train on two fast nodes at 5 s."""
        self.tell(0, Began())
        assert isinstance(self.tell(5, Ready("node0"), Ready("node1"))[0], Train)
        return self


def test_training_begins_when_all_nodes_are_ready() -> None:
    told = Told()
    plan, *launches = told.tell(0, Began())
    assert isinstance(plan, Proceed)
    assert launches == [Launch("node0", Kind(FAST, "spot")), Launch("node1", Kind(FAST, "spot"))]
    assert told.tell(4, Ready("node1")) == ()
    assert told.tell(6, Ready("node0")) == (Train(("node0", "node1"), (4, 4), 0, 1),)
    assert told.state.launch.seen_s == (6,), "until the last of them is there"


def test_the_smallest_live_rank_saves_and_leads_from_then_on() -> None:
    told = Told().training()
    told.tell(9, Beat("node0", 7), Beat("node1", 7))
    assert told.tell(10, Lost("node0", "ended")) == (Release("node0", "ended"), Save("node1"))
    plan, *rest = told.tell(11, Saved(8, asked=True))
    assert isinstance(plan, Proceed)
    assert plan.plan.forecast.configuration.label == f"1 {FAST}@4 + 2 {SLOW}@2"
    assert rest == [
        Restart("node1"),
        Launch("node2", Kind(SLOW, "spot")),
        Launch("node3", Kind(SLOW, "spot")),
    ]
    began = told.tell(15, Ready("node3"), Ready("node2"), Ready("node1"))
    assert began == (Train(("node1", "node2", "node3"), (4, 2, 2), 8, 2),)
    assert told.state.detach.seen_s == (1,)


def test_losing_a_higher_rank_leaves_the_checkpoint_to_rank_0() -> None:
    told = Told().training()
    assert told.tell(10, Lost("node1", "notice"))[1] == Save("node0")


def test_a_saver_that_is_lost_is_followed_by_the_next() -> None:
    told = Told().training()
    told.tell(10, Lost("node0", "ended"))
    assert told.tell(11, Lost("node1", "ended")) == (Release("node1", "ended"), Save(None))
    decisions = told.tell(11, Saved(5, asked=True))
    kinds = [one.kind.node_type for one in decisions if isinstance(one, Launch)]
    assert sorted(kinds) == sorted([SLOW, SLOW, SPARE, SPARE])
    assert told.state.step == 5, "the last checkpoint that there was"


def test_a_saver_that_says_nothing_is_lost() -> None:
    told = Told().training()
    told.tell(10, Lost("node0", "ended"))
    told.tell(69, Beat("node1", 3), Tick())
    assert told.state.phase == "saving"
    told.tell(70.5, Beat("node1", 3))
    assert told.tell(70.6, Tick()) == (Release("node1", "no checkpoint"), Save(None))


def test_silence_is_a_loss() -> None:
    told = Told().training()
    told.tell(14, Beat("node0", 3), Tick())
    assert told.state.phase == "training"
    assert told.tell(16, Tick()) == (Release("node1", "silent"), Save("node0"))


def test_a_node_that_does_not_come_up_is_lost() -> None:
    told = Told()
    told.tell(0, Began())
    told.tell(4, Ready("node0"))
    told.tell(99, Beat("node0", 0), Tick())
    assert told.state.phase == "launching"
    told.tell(101, Beat("node0", 0))
    release, plan, *launches = told.tell(101, Tick())
    assert release == Release("node1", "not launched")
    assert isinstance(plan, Proceed)
    assert {one.kind.node_type for one in launches if isinstance(one, Launch)} == {SLOW}
    assert not any(isinstance(one, Restart) for one in launches), "node0 has not begun to train"


def test_a_loss_while_launching_needs_no_checkpoint() -> None:
    told = Told().training()
    told.tell(10, Lost("node0", "ended"), Saved(3, asked=True))
    decisions = told.tell(12, Lost("node2", "ended"))
    assert decisions[0] == Release("node2", "ended")
    assert [one.node for one in decisions if isinstance(one, Launch)] == ["node4"]
    assert told.state.depleted == ((FAST, "spot"), (SLOW, "spot"))


def test_a_plan_that_counted_on_lost_progress_is_made_anew() -> None:
    told = Told().training()
    told.tell(9, Beat("node0", 50), Beat("node1", 50))
    told.tell(10, Lost("node0", "ended"), Tick())
    assert told.state.plan is not None and told.state.plan.iterations == 50
    plan = told.tell(11, Saved(40, asked=True))[0]
    assert isinstance(plan, Proceed)
    assert plan.plan.iterations == 60


def test_a_plan_that_was_made_while_saving_is_carried_out() -> None:
    told = Told().training()
    told.tell(9, Beat("node0", 50), Beat("node1", 50))
    told.tell(10, Lost("node0", "ended"), Tick())
    plan = told.state.plan
    assert plan is not None and plan.wait_s == 5 + 5, "detaching and launching"
    assert told.tell(11, Saved(50, asked=True))[0] == Proceed(plan)
    told = Told().training()
    told.tell(10, Lost("node0", "ended"), Tick(), Lost("node1", "ended"))
    assert told.state.plan is None, "it counted on node1"


def test_nodes_that_are_left_go_on_alone_where_that_is_best() -> None:
    told = Told(capacity=4)
    told.tell(0, Began())
    told.state = told.state.but(
        nodes=tuple(
            one.but(node_type=SLOW, usd_per_hour=jobs.PRICES[SLOW]) for one in told.state.nodes
        )
    )
    # Four slow nodes were up beside a fast one that is lost: nobody has to be launched.
    four = [
        told.state.nodes[0].but(name=f"node{i}", ready=True, up_s=0.0, trained=True)
        for i in range(4)
    ]
    fast = four[0].but(name="node9", node_type=FAST, usd_per_hour=jobs.PRICES[FAST])
    told.state = told.state.but(nodes=(*four, fast), phase="training")
    told.tell(10, Lost("node9", "ended"))
    plan, *rest = told.tell(11, Saved(3, asked=True))
    assert isinstance(plan, Proceed)
    assert plan.plan.forecast.configuration.label == f"4 {SLOW}@2"
    assert rest == [Restart(f"node{i}") for i in range(4)]


def test_training_that_breaks_with_all_alive_is_begun_again_once_it_got_anywhere() -> None:
    told = Told().training()
    told.tell(20, Beat("node0", 7), Beat("node1", 7), Broken("node0", "connection reset"))
    told.tell(39, Beat("node0", 7), Beat("node1", 7), Tick())
    assert told.state.phase == "training"
    assert told.tell(41, Beat("node0", 7), Beat("node1", 7), Tick()) == (Save("node0"),)
    decisions = told.tell(42, Saved(7, asked=True))
    assert decisions[1:] == (Restart("node0"), Restart("node1"))
    assert told.state.depleted == ()


def test_training_that_breaks_at_once_is_aborted() -> None:
    told = Told().training()
    told.tell(20, Beat("node0", 0), Beat("node1", 0), Broken("node1", "no such layer"))
    end = told.tell(41, Beat("node0", 0), Beat("node1", 0), Tick())[-1]
    assert end == End("training failed with all nodes alive: no such layer")


def test_a_loss_explains_what_broke() -> None:
    told = Told().training()
    told.tell(10, Broken("node1", "connection reset"), Lost("node0", "ended"))
    assert told.state.broken is None


def test_the_last_checkpoint_ends_the_job() -> None:
    told = Told(iterations=10).training()
    assert told.tell(9, Saved(5, asked=False)) == ()
    assert told.tell(12, Saved(10, asked=False)) == (
        Release("node0"),
        Release("node1"),
        End(None),
    )
    hours = 2 * (12 - 5) / 3600
    assert told.state.spent_usd == pytest.approx(hours * jobs.PRICES[FAST])
    assert told.tell(13, Lost("node0", "ended")) == ()


def test_a_loss_after_the_last_iteration_only_costs_its_checkpoint() -> None:
    told = Told(iterations=10).training()
    told.tell(12, Beat("node0", 10), Beat("node1", 10), Lost("node0", "ended"))
    assert told.tell(13, Saved(10, asked=True)) == (Release("node1"), End(None))


def test_who_comes_back_finds_the_nodes_gone_and_nothing_depleted() -> None:
    told = Told().training()
    told.tell(15, Beat("node0", 20), Beat("node1", 20))
    decisions = told.tell(500, Resumed(18))
    assert [one.node for one in decisions if isinstance(one, Launch)] == ["node2", "node3"]
    assert told.state.depleted == ()
    assert told.state.spent_usd == pytest.approx(2 * 10 * jobs.PRICES[FAST] / 3600), "until 15 s"
    assert told.tell(504, Ready("node2"), Ready("node3")) == (
        Train(("node2", "node3"), (4, 4), 18, 2),
    )


def test_who_comes_back_after_the_last_checkpoint_is_done() -> None:
    told = Told(iterations=10).training()
    assert told.tell(500, Resumed(10)) == (End(None),)


def test_nothing_feasible_is_asked_and_thinking_takes_time() -> None:
    told = Told(deadline_s=30.0).training()
    told.tell(10, Beat("node0", 2), Beat("node1", 2), Lost("node0", "ended"))
    (ask,) = told.tell(11, Saved(2, asked=True))
    assert isinstance(ask, Ask)
    way = ask.infeasible.ways[0]
    assert way.deadline_s is not None and way.deadline_s > 30
    told.tell(71, Beat("node1", 2))
    decisions = told.tell(71, Answered(way))
    assert isinstance(decisions[0], Proceed)
    assert told.state.deadline_s == pytest.approx(way.deadline_s + 60)


def test_depleted_kinds_can_be_asked_for_again() -> None:
    told = Told(capacity=2).training()
    for at_s, name in enumerate(("node0", "node1"), start=10):
        told.tell(at_s, Lost(name, "ended"))
    told.tell(20, Saved(0, asked=True))
    ask = told.tell(21, Lost("node2", "ended"))[-1]
    assert isinstance(ask, Ask)
    again = ask.infeasible.ways[-1]
    assert again.retry
    decisions = told.tell(30, Answered(again))
    kinds = {one.kind.node_type for one in decisions if isinstance(one, Launch)}
    assert FAST in kinds
    assert told.state.depleted == ()


def test_aborting_gives_everything_back() -> None:
    told = Told(deadline_s=30.0).training()
    told.tell(10, Lost("node0", "ended"), Saved(2, asked=True))
    release, end = told.tell(12, Answered(None))
    assert release == Release("node1")
    assert isinstance(end, End) and end.error is not None
    assert told.state.phase == "aborted"


@pytest.mark.parametrize("event", [Ready("node7"), Beat("node7", 3), Lost("node7", "ended")])
def test_nobody_listens_to_nodes_that_are_not_there(event: Event) -> None:
    told = Told().training()
    before = told.state
    assert told.tell(6, event) == ()
    assert told.state == before.but(at_s=6)


def test_a_state_is_read_as_it_was_written() -> None:
    told = Told(deadline_s=500.0).training()
    told.tell(10, Lost("node0", "ended"))
    assert State.model_validate_json(told.state.model_dump_json()) == told.state
