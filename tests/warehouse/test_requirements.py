"""Which runs are what a forecast asks for."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.made_run import all_reduce, served, worker_nodes
from warehouse.records import NodeGroup, Scenario, Strategy
from warehouse.requirements import Requirement, RequirementScope, Subject, meets_requirement

FAST, SLOW = "emu.avx512.s15", "emu.sse41.s15"


def scenario(*nodes: NodeGroup, link_mbps: float | None = 500, **load: object) -> Scenario:
    return all_reduce(*nodes, link_mbps=link_mbps, **load)


def group(node_type: str, count: int = 1, batch_size: int | None = None) -> NodeGroup:
    return worker_nodes(node_type, count, batch_size=batch_size)


def of_links(worker: str = "", link_mbps: float | None = 500) -> Subject:
    config = {"worker": worker} if worker else {}
    return Subject("probe", None, link_mbps, config)


def of(scenario: Scenario, probe: str = "probe") -> Subject:
    return Subject(probe, scenario, scenario.link_mbps)


MIXED = scenario(group(FAST, 2), group(SLOW))
ALONE = scenario(group(FAST), link_mbps=None)


@pytest.mark.parametrize("scope", ["own", "train", "cluster"])
def test_a_run_of_another_probe_serves_nothing(scope: RequirementScope) -> None:
    assert meets_requirement(of(MIXED), Requirement("probe", scope, MIXED))
    assert not meets_requirement(of(MIXED, "other"), Requirement("probe", scope, MIXED))
    assert not meets_requirement(Subject("other", None, 500), Requirement("probe", scope, MIXED))
    # Nor does one replica serve a device alone.
    alone = ALONE.model_copy(update={"strategy": Strategy(kind="single", workers=1)})
    assert not meets_requirement(of(ALONE), Requirement("probe", scope, alone))
    assert not meets_requirement(of(alone), Requirement("probe", scope, ALONE))


@pytest.mark.parametrize("scope", ["own", "train", "cluster"])
@pytest.mark.parametrize("changes", [{"precision": "bfloat16"}, {"optimizer": "adamw"}])
def test_no_run_serves_that_trains_in_another_way(
    scope: RequirementScope, changes: dict[str, str]
) -> None:
    load = MIXED.workload.model_copy(update=changes)
    other = MIXED.model_copy(update={"workload": load})
    assert not meets_requirement(of(other), Requirement("probe", scope, MIXED))
    assert not meets_requirement(of(MIXED), Requirement("probe", scope, other))
    assert meets_requirement(of(other), Requirement("probe", scope, other))
    assert meets_requirement(of_links(f"{FAST} + {SLOW}"), Requirement("probe", "cluster", other))
    assert meets_requirement(of(other), Requirement("probe", "train", MIXED, any_training=True))


OWN = Requirement("probe", "own", ALONE)
OWN_BATCH = Requirement("probe", "own", ALONE, any_batch=True)
CLUSTER = Requirement("probe", "cluster", MIXED)
UNSHAPED = Requirement("probe", "cluster", scenario(group(FAST, 2), link_mbps=None))
SERVED = served(group(FAST, 2), server=SLOW, link_mbps=500)
OTHER_BATCH = scenario(group(FAST), batch_size=24, link_mbps=None)


@pytest.mark.parametrize(
    ("requirement", "serve", "do_not"),
    [
        (OWN, [ALONE], [OTHER_BATCH, scenario(group(FAST, 1, 6), link_mbps=None), (FAST, None)]),
        (
            OWN_BATCH,
            [ALONE, OTHER_BATCH, scenario(group(FAST, 1, 6), link_mbps=None)],
            [
                scenario(group(FAST), link_mbps=500),
                scenario(group(SLOW), link_mbps=None),
                scenario(group(SLOW), batch_size=24, link_mbps=None),
                scenario(group(FAST), dnn="alexnet", link_mbps=None),
                (FAST, None),
            ],
        ),
        (
            CLUSTER,
            [("", 500), (f"{FAST} + {SLOW}", 500), scenario(group(FAST, 3), link_mbps=100)],
            [
                (f"{FAST} + emu.avx2.s15", 500),
                (FAST, 100),
                (FAST, None),
                scenario(group(FAST), group("emu.avx2.s15")),
            ],
        ),
        (UNSHAPED, [(FAST, None)], [(FAST, 500)]),
        # Servers are no workers.
        (Requirement("probe", "cluster", SERVED), [(FAST, 500)], [(SLOW, 500)]),
        # Which are of train is known to whoever made the needs, not by the run.
        (
            Requirement("probe", "train", MIXED),
            [scenario(group(SLOW), dnn="alexnet", link_mbps=100)],
            [],
        ),
    ],
    ids=["own", "any batch", "cluster", "unshaped", "servers", "train"],
)
def test_runs_serve_that_are_of_what_is_asked(
    requirement: Requirement,
    serve: Sequence[Scenario | tuple[str, float | None]],
    do_not: Sequence[Scenario | tuple[str, float | None]],
) -> None:
    for abouts, expected in ((serve, True), (do_not, False)):
        for about in abouts:
            subject = of(about) if isinstance(about, Scenario) else of_links(*about)
            assert meets_requirement(subject, requirement) == expected, about


GROUPS = st.lists(
    st.builds(
        group,
        st.sampled_from([FAST, SLOW, "emu.avx2.s15"]),
        st.integers(1, 3),
        st.sampled_from([None, 2, 4]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda nodes: nodes.node_type,
)
SCENARIOS = st.builds(
    lambda nodes, dnn, batch_size, link_mbps: scenario(
        *nodes, dnn=dnn, batch_size=batch_size, link_mbps=link_mbps
    ),
    GROUPS,
    st.sampled_from(["vgg11", "alexnet"]),
    st.sampled_from([8, 16]),
    st.sampled_from([None, 100.0, 500.0]),
)


@given(one=SCENARIOS, other=SCENARIOS, scope=st.sampled_from(["own", "train", "cluster"]))
def test_what_is_asked_for_serves_and_any_batch_asks_for_no_more(
    one: Scenario, other: Scenario, scope: RequirementScope
) -> None:
    assert meets_requirement(of(one), Requirement("probe", scope, one))
    assert meets_requirement(of(one), Requirement("probe", scope, one, any_batch=True))
    if meets_requirement(of(one), Requirement("probe", scope, other)):
        assert meets_requirement(of(one), Requirement("probe", scope, other, any_batch=True))


@given(one=SCENARIOS, other=SCENARIOS)
def test_whose_profile_it_is_does_not_depend_on_which_side_asks(
    one: Scenario, other: Scenario
) -> None:
    for any_batch in (True, False):
        asks = [Requirement("probe", "own", each, any_batch=any_batch) for each in (one, other)]
        assert meets_requirement(of(other), asks[0]) == meets_requirement(of(one), asks[1])
