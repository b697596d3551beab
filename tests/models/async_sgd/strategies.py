"""Random jobs for hypothesis: whole numbers, so that many events coincide."""

from dataclasses import replace

from hypothesis import strategies as st

from models.async_sgd.graph import ProfiledStep, StepGraph
from models.async_sgd.link_sharing import MeasuredSharing
from models.async_sgd.workers import Sharing, SimulationOptions
from tests.models.async_sgd.graphs import D, Op, P, U, W, job, options, step


@st.composite
def jobs(draw: st.DrawFn, servers: int = 1) -> tuple[StepGraph, list[ProfiledStep]]:
    """Return a graph of 1 to 12 operations and 1 to 3 steps that differ in times and order."""
    count = draw(st.integers(1, 12))
    ops = []
    for index in range(count):
        resource = draw(st.sampled_from([D, W, U, P]))
        after = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        ops.append(Op(resource, draw(st.integers(0, 40)), tuple(after)))
    graph, profiled = job(*ops)
    placed = tuple(draw(st.integers(0, servers - 1)) for _ in ops) if servers > 1 else graph.servers
    return replace(graph, servers=placed), [
        step(
            *(seconds * factor for seconds in profiled.seconds),
            order=draw(st.permutations(profiled.order)),
            release_s=draw(st.lists(st.sampled_from([0.0, 2.5]), min_size=count, max_size=count)),
        )
        for factor in draw(st.lists(st.sampled_from([0.5, 1.0, 1.75]), min_size=1, max_size=3))
    ]


def any_options() -> st.SearchStrategy[SimulationOptions]:
    """Return options of a few workers, steps, threads, windows and gaps, which record."""
    return st.builds(
        options,
        workers=st.integers(1, 4),
        steps=st.integers(1, 3),
        downlink_Bps=st.sampled_from([1.0, 10.0, 33.0]),
        window_bytes=st.sampled_from([None, 7, 20]),
        inter_op_threads=st.integers(1, 2),
        cores=st.sampled_from([1.0, 1.5, 3.0]),
        client_gap_s=st.sampled_from([(0.0,), (0.0, 1.5)]),
        downlink_spread=st.sampled_from([0.0, 0.3]),
        uplink_spread=st.sampled_from([0.0, 0.3]),
        newcomer_weight=st.sampled_from([1.0, 0.5]),
        newcomer_pause_s=st.sampled_from([0.0, 2.7182818]),
        seed=st.integers(0, 5),
        record=st.just(True),
    )


@st.composite
def sharings(draw: st.DrawFn, chosen: SimulationOptions, servers: int) -> SimulationOptions:
    """Return options that share links in any way that so many servers allow."""
    rules: tuple[Sharing, ...] = ("equal", "max_min", "two_servers")
    sharing = draw(st.sampled_from(rules if servers < 3 else rules[:2]))
    chosen = replace(chosen, sharing=sharing)
    if sharing == "equal" and draw(st.booleans()):
        equally = replace(chosen, downlink_spread=0.0, uplink_spread=0.0, newcomer_weight=1.0)
        return replace(equally, worker_downlink_Bps=4.0, worker_uplink_Bps=7.0)
    if sharing != "max_min":
        return chosen
    speeds = st.sampled_from([1.0, 4.0, 10.0, float("inf")])
    return replace(
        chosen,
        downlink_Bps=draw(st.sampled_from([3.0, 10.0])),
        worker_downlink_Bps=draw(speeds),
        worker_uplink_Bps=draw(speeds),
        downlink_measured=draw(st.none() | st.just(MEASURED)),
        uplink_measured=draw(st.none() | st.just(MEASURED)),
    )


MEASURED = MeasuredSharing(flows=(1, 2, 4), efficiency=(1.0, 0.9, 0.8), opposed=(1.0, 0.9, 0.6))
