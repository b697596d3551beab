"""Plans for what is left of a job: what counts against the limits, and the ways out."""

import pytest

from pipelines.runtime import IfInfeasible
from pipelines.runtime.plan import Infeasible, MarketNodeType, Plan
from pipelines.runtime.state import JobState, LearnedDurations, RentedNode
from tests.pipelines.runtime import jobs
from tests.pipelines.runtime.jobs import FAST, SLOW, planner

ONE_FAST = RentedNode(
    name="node0", node_type=FAST, market="spot", usd_per_hour=0, batch_size=4, since_s=0
)
GONE = (MarketNodeType(FAST, "spot"),)
NOW = JobState(
    iterations=100,
    at_s=40.0,
    gone_usd=0.001,
    launch=LearnedDurations(assumed_s=20.0),
    restart=LearnedDurations(assumed_s=3.0),
)


def planned(outcome: Plan | Infeasible) -> Plan:
    """Return a plan that is one."""
    assert isinstance(outcome, Plan)
    return outcome


def infeasible(outcome: Plan | Infeasible) -> Infeasible:
    """Return a plan that is none."""
    assert isinstance(outcome, Infeasible)
    return outcome


def test_launching_and_detaching_count_against_the_deadline() -> None:
    fastest = planner(minimize="time")
    plan = planned(fastest.plan(NOW))
    assert plan.finish_s == pytest.approx(40 + 20 + plan.forecast.time_s)
    just = NOW.but(deadline_s=plan.finish_s)
    assert planned(fastest.plan(just)).forecast == plan.forecast
    assert infeasible(fastest.plan(just.but(launch=LearnedDurations(assumed_s=20.1))))
    detached = planned(fastest.plan(NOW, 4.0))
    assert detached.wait_s == 24
    just = NOW.but(deadline_s=detached.finish_s)
    assert planned(fastest.plan(just, 4.0)).forecast == detached.forecast
    assert infeasible(fastest.plan(just, 4.1))


def test_nodes_that_are_up_are_paid_while_others_launch() -> None:
    now = NOW.but(nodes=(ONE_FAST,), depleted=GONE)
    plan = planned(planner().plan(now))
    assert plan.forecast.configuration.label == f"1 {FAST}@4 + 2 {SLOW}@2"
    waiting_usd = 20 * jobs.PRICES[FAST] / 3600
    assert plan.cost_usd == pytest.approx(0.001 + waiting_usd + plan.forecast.cost_usd)
    assert planned(planner().plan(now.but(budget_usd=plan.cost_usd))) == plan
    assert infeasible(planner().plan(now.but(budget_usd=plan.cost_usd * 0.999)))


def test_those_that_are_up_need_not_wait_for_launches() -> None:
    now = NOW.but(nodes=(ONE_FAST, ONE_FAST))
    plan = planned(planner().plan(now))
    assert (plan.forecast.configuration.label, plan.wait_s) == (f"2 {FAST}@4", 3)


def test_depleted_kinds_stay_but_are_not_launched() -> None:
    plan = planned(planner().plan(NOW.but(depleted=GONE)))
    assert FAST not in plan.forecast.configuration.node_types
    alone = NOW.but(
        nodes=(ONE_FAST,), depleted=[MarketNodeType(node_type, "spot") for node_type in jobs.PRICES]
    )
    no_plan = infeasible(planner().plan(alone))
    assert "cannot hold the batch of 8 samples" in no_plan.reason
    (way,) = no_plan.ways
    assert way.retry and way.text.startswith("ask for emu.")


def test_nothing_on_offer_is_told_as_such() -> None:
    everything = [MarketNodeType(node_type, "spot") for node_type in jobs.PRICES]
    no_plan = infeasible(planner().plan(NOW.but(depleted=everything)))
    assert no_plan.reason == "the nodes that are left cannot hold the batch of 8 samples"


@pytest.mark.parametrize("late_s", [10.0, 500.0])
def test_each_way_out_is_one(late_s: float) -> None:
    now = NOW.but(deadline_s=50.0, at_s=late_s, budget_usd=0.002)
    no_plan = infeasible(planner().plan(now))
    assert no_plan.ways
    for way in no_plan.ways:
        assert "raise the" in way.text
        relaxed = now.but(deadline_s=way.deadline_s, budget_usd=way.budget_usd)
        assert planned(planner().plan(relaxed))


@pytest.mark.parametrize(
    ("policy", "deadline_s", "budget_usd", "raised"),
    [
        ("deadline", 50.0, None, "deadline"),
        ("budget", None, 0.0011, "budget"),
        ("budget", 50.0, None, None),
        ("deadline", None, 0.0011, None),
        ("deadline", 50.0, 0.0011, None),
        ("abort", 50.0, None, None),
        ("ask", 50.0, None, None),
    ],
)
def test_a_policy_raises_what_it_may_and_nothing_else(
    policy: IfInfeasible, deadline_s: float | None, budget_usd: float | None, raised: str | None
) -> None:
    now = NOW.but(deadline_s=deadline_s, budget_usd=budget_usd)
    way = infeasible(planner().plan(now)).way(policy)
    if raised is None:
        assert way is None
    else:
        assert way is not None
        assert (way.deadline_s != deadline_s, way.budget_usd != budget_usd) == (
            raised == "deadline",
            raised == "budget",
        )
