"""The scenario of section 5.4 in virtual time, and any losses at any time.

Prices, largest batches, limits and launch times are the paper's. Seconds are declared so that its
forecasts come out: 400 iterations in 152 s on two p3.8xlarge, 200 in 100 s on one of them with
eight g3.8xlarge.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.choice.offers import Offer
from models.srift.iteration import NodeProfile, Performance
from models.srift.latency import Latency, PiecewiseLinear
from pipelines.runtime.controller import Controller
from pipelines.runtime.job_store import EventLogEntry
from pipelines.runtime.plan import Planner
from pipelines.runtime.state import JobState
from tests.models.srift.performances import rated
from tests.pipelines.runtime import jobs
from tests.pipelines.runtime.paper_world import PaperWorld, PlannedLoss

GBPS = 1e9 / 8
NODES = {
    "p3.8xlarge": (512, 0.38, 3.68),
    "g3.8xlarge": (64, 0.5, 0.69),
    "g4dn.8xlarge": (64, 0.5, 0.72),
}
"""Largest batch of a node, what an iteration of it takes, and dollars per hour."""
LAUNCHED_S, AGAIN_S, DETACHED_S = 138.0, 95.0, 4.0
PACES = (84 / 76, 98 / 100)
"""The paper's 200 iterations took 84 s instead of 76, and then 98 s instead of 100."""


def line(batch: int, seconds: float) -> PiecewiseLinear:
    """Return seconds of batches; a tenth of those of the largest is for no sample at all."""
    first = seconds / 10 + 0.9 * seconds / batch
    return PiecewiseLinear(batch_sizes=(1, batch), seconds=(first, seconds))


def run(deadline_s: float = 500.0) -> PaperWorld:
    """Return the scenario after it was run, with 8 nodes of each type on offer."""
    nodes = {
        name: NodeProfile(
            max_batch=batch,
            latency=Latency(forward=line(batch, seconds / 3), backward=line(batch, seconds / 1.5)),
            ready=(0.5,),
            link_Bps=10 * GBPS,
        )
        for name, (batch, seconds, _) in NODES.items()
    }
    bandwidth = rated(**dict.fromkeys(NODES, 10 * GBPS))
    offers = tuple(
        Offer(node_type=name, market="spot", usd_per_hour=usd, capacity=8)
        for name, (_, _, usd) in NODES.items()
    )
    performance = Performance(layer_bytes=(100_000_000,), nodes=nodes, bandwidth=bandwidth)
    world = PaperWorld(
        Controller(Planner(performance, offers, 1024, "cost")),
        JobState(iterations=400, deadline_s=deadline_s),
        launches_s=(LAUNCHED_S, AGAIN_S),
        restart_s=10.0,
        detach_s=DETACHED_S,
        paces=PACES,
    )
    world.run([PlannedLoss(222.0, "p3.8xlarge")])
    return world


@pytest.fixture(scope="module")
def scenario() -> PaperWorld:
    """Return it as the paper tells it."""
    return run()


def of(world: PaperWorld, event: str) -> list[EventLogEntry]:
    """Return the entries of one kind."""
    return [entry for entry in world.story if entry.event == event]


def test_it_starts_as_the_paper_does(scenario: PaperWorld) -> None:
    plan = of(scenario, "planned")[0]
    assert plan.detail["configuration"] == "2 p3.8xlarge@512"
    assert plan.detail["train_s"] == pytest.approx(152)
    assert plan.detail["finish_s"] == pytest.approx(302), "150 s of launching count"
    assert of(scenario, "training")[0].at_s == 138


def test_half_the_iterations_are_saved_when_a_node_is_lost(scenario: PaperWorld) -> None:
    (lost,) = of(scenario, "lost")
    assert (lost.node_type, lost.at_s) == ("p3.8xlarge", 222)
    saved = next(entry for entry in of(scenario, "saved") if entry.detail["asked"])
    assert saved.step == 200
    assert saved.at_s == pytest.approx(226)


def test_eight_g3_join_the_p3_that_is_left(scenario: PaperWorld) -> None:
    plan = of(scenario, "planned")[1]
    assert plan.detail["configuration"] == "1 p3.8xlarge@512 + 8 g3.8xlarge@64"
    assert plan.detail["iterations"] == 200
    assert plan.detail["train_s"] == pytest.approx(100)
    # The paper goes on to expect 150 s, and so 479 s; here what was observed has been learned.
    assert plan.detail["wait_s"] == pytest.approx(5 + LAUNCHED_S)
    assert plan.detail["finish_s"] == pytest.approx(222 + 5 + LAUNCHED_S + 100)
    assert scenario.state.depleted == (("p3.8xlarge", "spot"),)


def test_it_finishes_when_the_paper_does(scenario: PaperWorld) -> None:
    assert scenario.state.phase == "finished"
    assert of(scenario, "finished")[0].at_s == pytest.approx(419)
    billed_s = (222 - 138) + (419 - 138)
    new_s = 419 - 226 - AGAIN_S
    expected_usd = (billed_s * 3.68 + 8 * new_s * 0.69) / 3600
    assert scenario.state.spent_usd == pytest.approx(expected_usd)
    assert scenario.state.launch.seen_s == pytest.approx((LAUNCHED_S, AGAIN_S))
    assert scenario.state.detach.seen_s == pytest.approx((DETACHED_S,))


def test_too_short_a_deadline_is_told_at_the_interruption_not_missed() -> None:
    # Without the loss 222 + 84 s would do; with it, launching leaves 6 s for 200 iterations.
    world = run(deadline_s=370.0)
    assert world.state.phase == "aborted"
    (question,) = of(world, "asked")
    assert question.at_s == pytest.approx(226)
    assert any("raise the deadline from 370 s" in str(way) for way in question.detail["ways"])  # type: ignore[union-attr]


LOSSES = st.lists(
    st.builds(PlannedLoss, st.floats(0, 60), st.sampled_from(list(jobs.PRICES))), max_size=6
)


@given(
    LOSSES,
    st.floats(0.1, 10),
    st.floats(0, 5),
    st.floats(0, 2),
    st.sampled_from([None, 20.0, 40.0]),
    st.booleans(),
)
def test_whatever_is_lost_the_job_ends_and_its_books_are_right(
    losses: list[PlannedLoss],
    launch_s: float,
    restart_s: float,
    detach_s: float,
    deadline_s: float | None,
    relaxes: bool,
) -> None:
    world = PaperWorld(
        Controller(jobs.planner()),
        JobState(iterations=40, deadline_s=deadline_s),
        launches_s=(launch_s,),
        restart_s=restart_s,
        detach_s=detach_s,
        answer=lambda infeasible: next(iter(infeasible.ways), None) if relaxes else None,
    )
    state = world.run(losses)
    assert state.over
    assert state.nodes == ()
    gone_s = {
        entry.node: entry.at_s for entry in world.story if entry.event in ("lost", "released")
    }
    bill = sum(
        (gone_s[entry.node] - entry.at_s) * jobs.PRICES[str(entry.node_type)] / 3600
        for entry in of(world, "launched")
    )
    assert state.spent_usd == pytest.approx(bill)
    assert_depleted_kinds_stay_away(world.story)
    if state.phase == "finished":
        assert state.step == 40
        steps = [entry.step or 0 for entry in world.story if entry.event == "training"]
        saved = [0, *(entry.step for entry in world.story if entry.detail.get("asked"))]
        assert steps == sorted(steps)
        assert set(steps) <= set(saved), "training goes on from what was saved"


def assert_depleted_kinds_stay_away(story: list[EventLogEntry]) -> None:
    """Check that a type of which a node was lost is launched again only if asked for again."""
    depleted: set[str | None] = set()
    for entry in story:
        if entry.event == "lost":
            depleted.add(entry.node_type)
        elif entry.event == "answered" and "again" in str(entry.detail["answer"]):
            depleted.clear()
        elif entry.event == "launch":
            assert entry.node_type not in depleted
