from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd.graph import Resource
from models.async_sgd.trace import with_parsed, with_parsing, work_seconds
from tests.models.async_sgd.captures import streams
from tests.models.async_sgd.frames import (
    APPLY,
    COMPUTE,
    RECEIVE,
    UPLOAD,
    Tables,
    chain,
    profile,
    tables,
)
from tests.models.async_sgd.graphs import D, Op, P, U, W, job, options
from tests.models.async_sgd.oracle.simulator import simulate
from warehouse.records import BadInput

THREADS = 4
PARSE_DOWN, PARSE_UP = 7, 8
_PARSING_US = st.integers(0, 70)


def test_a_chain() -> None:
    """Work lasts from the end of what was waited for: 7 ms of stall before computing are its own.

    Sends take what was recorded up to the start of their transfer, here nothing.
    """
    made = chain()
    read = profile(made)
    assert read.graph.resources == (P, P, D, W, W, U, P, W, P)
    assert read.graph.sizes_bytes == (0, 0, 20_000, 0, 0, 10_000, 0, 0, 0)
    before_parsing = ((1,), (2,), (PARSE_DOWN,), (4,), (5,), (PARSE_UP,), ())
    assert read.graph.successors == (*before_parsing, (COMPUTE,), (APPLY,))
    assert read.graph.names[7:] == ("downlink2/parsing", "uplink5/parsing")
    assert len(read.steps) == 3
    step = read.steps[0]
    assert step.seconds == pytest.approx((0.002, 0, 0, 0.307, 0, 0, 0.010, 0.05, 0.03))
    assert step.release_s == (0.001, *[0] * 8)
    assert read.requested == (RECEIVE, UPLOAD)


def test_another_link_changes_transfers_and_not_parsing() -> None:
    """Recorded at 100 kB/s, simulated at 1 MB/s: 0.02 and 0.01 s, then 50 and 30 ms of parsing."""
    read = profile(chain())
    trace = simulate(read.graph, read.steps, options(downlink_Bps=1e6, uplink_Bps=1e6, record=True))
    lasted = {i.operation: i.end_s - i.start_s for i in trace.intervals}
    assert (lasted[RECEIVE], lasted[UPLOAD]) == pytest.approx((0.02, 0.01))
    assert (lasted[PARSE_DOWN], lasted[PARSE_UP]) == pytest.approx((0.05, 0.03))


def test_captured_steps_are_cut_at_their_packets_and_others_by_the_model() -> None:
    """Of the first step only, the receive (from 3 to 253 ms) was captured: sent from 5 to 213."""
    made = chain(steps=2)
    read = profile(made, streams=streams((0, RECEIVE, 5_000, 213_000)))
    first, second = read.steps
    assert (first.seconds[PARSE_DOWN], first.seconds[PARSE_UP]) == pytest.approx((0.04, 0.03))
    assert (second.seconds[PARSE_DOWN], second.seconds[PARSE_UP]) == pytest.approx((0.05, 0.03))


def test_an_unrecorded_send_ends_when_its_transfer_starts() -> None:
    """The thread sends (1) only after computing (2): the trace shows it, in the upload's start."""
    made = tables(
        [("worker", None), ("worker", None), ("worker", None), ("uplink", 10)],
        [(0, 1), (0, 2), (1, 3)],
        [{0: (0, 100), 2: (100, 500), 3: (620, 50)}],
    )
    read = profile(made, link_Bps=1e9)
    assert read.steps[0].seconds == pytest.approx((100e-6, 20e-6, 500e-6, 0, 50e-6))
    assert read.steps[0].order == (0, 2, 1, 3, 4)
    trace = simulate(read.graph, read.steps, options(downlink_Bps=1e9, uplink_Bps=1e9, record=True))
    starts_us = {i.operation: i.start_s * 1e6 for i in trace.intervals}
    assert starts_us[3] == pytest.approx(620)


@pytest.mark.parametrize(
    ("cores", "work_us"), [(1.0, (150, 150)), (1.5, (175, 175)), (2, (200, 200))]
)
def test_threads_that_compute_at_once_divide_the_cores(
    cores: float, work_us: tuple[float, float]
) -> None:
    """0 from 0 to 200 us, 1 from 100 to 300 us: alone, together, alone."""
    made = tables([("worker", None)] * 2, [], [{0: (0, 200), 1: (100, 200)}])
    read = profile(made, inter_op_threads=2, cores=cores)
    assert read.steps[0].seconds == pytest.approx(tuple(us / 1e6 for us in work_us))


@st.composite
def recorded_steps(draw: st.DrawFn) -> tuple[Tables, dict[int, int], dict[int, int]]:
    """Return a run of one step, when its link had sent each transfer, and when each record ends.

    Any graph, with stalls before and within operations. Each link sends 1 byte per microsecond,
    one transfer after the other; the receiver then parses. Each transfer has a send that is not
    recorded. On a link, transfers are numbered as they start.
    """
    resources: list[tuple[str, int | None]] = []
    edges: list[tuple[int, int]] = []
    recorded: dict[int, tuple[int, int]] = {}
    sent_us: dict[int, int] = {}
    free_us, last_us = {"downlink": 0, "uplink": 0}, {"downlink": -1, "uplink": -1}
    for _ in range(draw(st.integers(1, 10))):
        resource = draw(st.sampled_from(["worker", "worker", "ps", "downlink", "uplink"]))
        ended = sorted(recorded)
        sources = draw(st.sets(st.sampled_from(ended), max_size=3)) if ended else set()
        ready_us = max((sum(recorded[source]) for source in sources), default=0)
        start_us = ready_us + draw(st.integers(0, 60))
        operation = len(resources)
        edges += [(source, operation) for source in sources]
        if resource in free_us:
            resources.append(("ps" if resource == "downlink" else "worker", None))
            edges.append((operation, operation + 1))
            operation += 1
            start_us = max(start_us, last_us[resource] + 1)
            last_us[resource] = start_us
            size = draw(st.integers(0, 90))
            free_us[resource] = sent_us[operation] = max(free_us[resource], start_us) + size
            resources.append((resource, size))
            recorded[operation] = start_us, sent_us[operation] - start_us + draw(_PARSING_US)
        else:
            resources.append((resource, None))
            recorded[operation] = start_us, draw(st.integers(0, 90))
    ends_us = {operation: sum(times) for operation, times in recorded.items()}
    return tables(resources, edges, [recorded]), sent_us, ends_us


@given(recorded_steps(), st.sampled_from([1.0, 1.5, 3.0]))
def test_replaying_a_step_gives_its_recorded_times(
    recorded: tuple[Tables, dict[int, int], dict[int, int]], cores: float
) -> None:
    """On several threads, all that is computed, sent and parsed ends as recorded."""
    made, sent_us, ends_us = recorded
    read = profile(made, link_Bps=1e6, inter_op_threads=THREADS, cores=cores)
    trace = simulate(
        read.graph,
        read.steps,
        options(
            downlink_Bps=1e6, uplink_Bps=1e6, inter_op_threads=THREADS, cores=cores, record=True
        ),
    )
    replayed_us = {i.operation: i.end_s * 1e6 for i in trace.intervals}
    assert {i: replayed_us[i] for i in sent_us} == pytest.approx(sent_us, abs=1e-3)
    parsing = {i: read.graph.names.index(f"{read.graph.names[i]}/parsing") for i in sent_us}
    ended_us = {i: replayed_us[parsing.get(i, i)] for i in ends_us}
    assert ended_us == pytest.approx(ends_us, abs=1e-3)
    assert trace.step_ends_s[0, 0] * 1e6 == pytest.approx(max(ends_us.values()), abs=1e-3)


def test_too_many_incomplete_steps_are_refused() -> None:
    made = chain(steps=3).without_timing(1, COMPUTE).without_timing(2, RECEIVE)
    with pytest.raises(BadInput, match="2 of 3 traced steps lack some of the 5 timed operations"):
        profile(made)


SPEED_BPS = {D: 1e6, U: 1e6}


def test_a_transfer_is_cut_where_the_link_had_sent_it() -> None:
    graph, _ = job(Op(D, 100), Op(W, 1, (0,)))
    assert with_parsed(graph, [(5, 145), (145, 200)], [0], SPEED_BPS) == [
        (5, 105),
        (145, 200),
        (105, 145),
    ]


def test_directions_have_links_of_their_own_and_servers_share_the_worker_s() -> None:
    """Server 1 sends 40 beside server 0 from 20 on: until 100, when server 0 has 40 of 100 left."""
    graph, _ = job(Op(D, 100), Op(U, 100), Op(D, 40), Op(D, 30))
    apart = replace(graph, servers=(0, 0, 1, 0))
    recorded = [(0, 500), (0, 500), (20, 500), (30, 500)]
    cut = with_parsed(apart, recorded, [0, 1, 2, 3], {D: 1e6, U: 2e6})
    assert cut[:4] == [(0, 140), (0, 50), (20, 100), (30, 170)]


def test_captured_packets_say_where_to_cut() -> None:
    """0 was captured: its first packet came late, its last after what the link would need.

    The link is busy until then for 1, which was not; packets outside a record count as its ends.
    """
    graph, _ = job(Op(D, 100), Op(D, 10), Op(D, 5))
    recorded = [(5, 145), (7, 160), (200, 260)]
    cut = with_parsed(graph, recorded, [0, 1, 2], SPEED_BPS, {0: (20, 130), 2: (190, 270)})
    assert cut[:3] == [(20, 130), (7, 140), (200, 260)]
    assert cut[3:] == [(130, 145), (140, 160), (260, 260)]


@pytest.mark.parametrize(("link", "receiver"), [(D, W), (U, P)])
def test_the_receiver_parses_before_anything_else_goes_on(
    link: Resource, receiver: Resource
) -> None:
    graph, _ = job(Op(P, 1), Op(link, 100, (0,)), Op(W, 1, (1,)), Op(P, 1, (1,)))
    parsed = with_parsing(graph, [1])
    name = f"{graph.names[1]}/parsing"
    assert (parsed.names, parsed.resources[4]) == ((*graph.names, name), receiver)
    assert (parsed.sizes_bytes[1], parsed.sizes_bytes[4]) == (100, 0)
    assert parsed.successors == ((1,), (4,), (), (), (2, 3))


GRAPH, _ = job(Op(D, 5), Op(W, 1, (0,)), Op(W, 1, (0,)), Op(P, 1, (1, 2)), Op(W, 1))
INTERVALS = [(2, 10), (12, 30), (20, 40), (45, 50), (3, 5)]


@pytest.mark.parametrize(
    ("cores", "serial", "first", "second"),
    # Both wait from 10 us on; one ends at 30, the other at 40.
    [(1.0, False, 10, 20), (2.0, False, 20, 30), (1.0, True, 20, 10)],
)
def test_time_goes_to_all_that_wait_or_run(
    cores: float, serial: bool, first: float, second: float
) -> None:
    work_us = [1e6 * seconds for seconds in work_seconds(GRAPH, INTERVALS, cores, serial)]
    assert work_us == pytest.approx([0, first, second, 10, 2])


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        ((0, 9, 0, 1), "expected operations 0 to 6, found .*operation 9"),
        ((7, 0, 0, 1), "expected a traced step of table step, found .*step 7"),
        ((0, 0, 0, -4), "expected a duration of 0 or more, found .*duration_us -4"),
    ],
)
def test_bad_timings(timing: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        profile(chain().with_timing(*timing))


def test_bad_operations() -> None:
    made = chain()
    unknown = made.operations.with_columns(resource=pl.lit("gpu"))
    with pytest.raises(BadInput, match=r"expected one of downlink.*resource gpu"):
        profile(replace(made, operations=unknown))
    unsized = made.operations.with_columns(size_bytes=pl.lit(None, pl.Int64))
    with pytest.raises(BadInput, match=r"expected size_bytes of 0 or more.*size_bytes None"):
        profile(replace(made, operations=unsized))
    with pytest.raises(BadInput, match="expected 0 to 5, each once, found"):
        profile(replace(made, operations=made.operations.tail(6)))
