from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd.graph import Resource
from models.async_sgd.simulator import simulate
from models.async_sgd.trace import Profile, read_profile
from tests.models.async_sgd.frames import APPLY, COMPUTE, RECEIVE, UPLOAD, Tables, chain, tables
from tests.models.async_sgd.graphs import D, P, U, W, options
from warehouse.records import BadInput

THREADS = 4


def test_a_chain() -> None:
    """Work lasts from the end of what was waited for: 7 ms of stall before computing are its own.

    Sends take what was recorded up to the start of their transfer, here nothing.
    """
    made = chain()
    profile = read_profile(made.operations, made.edges, made.timings, made.steps)
    assert profile.graph.resources == (P, P, D, W, W, U, P)
    assert profile.graph.sizes_bytes == (0, 0, 20_000, 0, 0, 10_000, 0)
    assert profile.graph.successors == ((1,), (2,), (3,), (4,), (5,), (6,), ())
    assert len(profile.steps) == 3
    step = profile.steps[0]
    assert step.seconds == pytest.approx((0.002, 0, 0, 0.307, 0, 0, 0.010))
    assert step.release_s == (0.001, 0, 0, 0, 0, 0, 0)
    assert profile.requested == (RECEIVE, UPLOAD)


def test_transfers_last_as_their_bytes_and_not_as_recorded() -> None:
    made = chain()
    slower = made.timings.with_columns(
        duration_us=pl.when(pl.col("operation") == UPLOAD)
        .then(pl.col("duration_us") - 100_000)
        .otherwise("duration_us"),
        start_us=pl.when(pl.col("operation") == UPLOAD)
        .then(pl.col("start_us") + 100_000)
        .otherwise("start_us"),
    )
    profile = read_profile(made.operations, made.edges, slower, made.steps)
    trace = simulate(
        profile.graph, profile.steps, options(downlink_Bps=100e3, uplink_Bps=100e3, record=True)
    )
    lasted = {i.operation: i.end_s - i.start_s for i in trace.intervals}
    assert (lasted[RECEIVE], lasted[UPLOAD]) == pytest.approx((0.2, 0.1))


def test_an_unrecorded_send_ends_when_its_transfer_starts() -> None:
    """The thread sends (1) only after computing (2): the trace shows it, in the upload's start."""
    made = tables(
        [("worker", None), ("worker", None), ("worker", None), ("uplink", 10)],
        [(0, 1), (0, 2), (1, 3)],
        [{0: (0, 100), 2: (100, 500), 3: (620, 50)}],
    )
    profile = read_profile(made.operations, made.edges, made.timings, made.steps)
    assert profile.steps[0].seconds == pytest.approx((100e-6, 20e-6, 500e-6, 0))
    assert profile.steps[0].order == (0, 2, 1, 3)
    trace = simulate(
        profile.graph, profile.steps, options(downlink_Bps=1e9, uplink_Bps=1e9, record=True)
    )
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
    profile = read_profile(
        made.operations, made.edges, made.timings, made.steps, inter_op_threads=2, cores=cores
    )
    assert profile.steps[0].seconds == pytest.approx(tuple(us / 1e6 for us in work_us))


def test_one_thread_works_for_what_ends_first() -> None:
    """An asynchronous operation (0) is recorded across another (1) on the same thread."""
    made = tables([("worker", None)] * 2, [], [{0: (0, 300), 1: (100, 50)}])
    profile = read_profile(made.operations, made.edges, made.timings, made.steps)
    assert profile.steps[0].seconds == pytest.approx((250e-6, 50e-6))


def test_servers_compute_for_all_at_once() -> None:
    made = tables([("ps", None)] * 2, [], [{0: (0, 300), 1: (100, 50)}])
    profile = read_profile(made.operations, made.edges, made.timings, made.steps)
    assert profile.steps[0].seconds == pytest.approx((300e-6, 50e-6))


@given(st.data(), st.sampled_from([1.0, 1.5, 3.0]))
def test_replaying_a_step_gives_its_recorded_times(data: st.DataObject, cores: float) -> None:
    """Any graph, with stalls before and within operations, on several threads.

    Operations of `ps` stand for transfers that last as recorded.
    """
    count = data.draw(st.integers(1, 10))
    resources, edges = [], []
    recorded: dict[int, tuple[int, int]] = {}
    for operation in range(count):
        resources.append(data.draw(st.sampled_from(["worker", "worker", "ps"])))
        sources = (
            data.draw(st.sets(st.integers(0, operation - 1), max_size=3)) if operation else set()
        )
        edges += [(source, operation) for source in sources]
        ready_us = max((sum(recorded[source]) for source in sources), default=0)
        stall_us, duration_us = data.draw(st.tuples(st.integers(0, 60), st.integers(0, 90)))
        recorded[operation] = (ready_us + stall_us, duration_us)
    made = tables([(resource, None) for resource in resources], edges, [recorded])
    profile = read_profile(
        made.operations, made.edges, made.timings, made.steps, inter_op_threads=THREADS, cores=cores
    )
    trace = simulate(
        profile.graph,
        profile.steps,
        options(inter_op_threads=THREADS, cores=cores, record=True),
    )
    replayed_us = {i.operation: i.end_s * 1e6 for i in trace.intervals}
    assert replayed_us == pytest.approx({i: sum(times) for i, times in recorded.items()}, abs=1e-3)


def test_parsing_is_computed_at_the_receiver() -> None:
    made = chain()
    profile = read_profile(
        made.operations,
        made.edges,
        made.timings,
        made.steps,
        overhead_s_per_byte=1e-6,
        overhead_s=0.005,
    )
    graph = profile.graph
    assert graph.names[7:] == ("downlink2/parsing", "uplink5/parsing")
    assert graph.resources[7:] == (Resource.WORKER, Resource.PS)
    assert profile.steps[0].seconds[7:] == pytest.approx((0.025, 0.015))
    assert (graph.successors[RECEIVE], graph.successors[7]) == ((7,), (COMPUTE,))
    assert (graph.successors[UPLOAD], graph.successors[8]) == ((8,), (APPLY,))


def test_an_incomplete_step_is_left_out() -> None:
    made = chain(steps=3).without_timing(step=1, operation=COMPUTE)
    assert len(_read(made).steps) == 2


def test_too_many_incomplete_steps_are_refused() -> None:
    made = chain(steps=3).without_timing(1, COMPUTE).without_timing(2, RECEIVE)
    with pytest.raises(BadInput, match="2 of 3 traced steps lack some of the 5 timed operations"):
        _read(made)


def test_an_operation_timed_twice_spoils_its_step() -> None:
    made = chain(steps=1).with_timing(0, COMPUTE, 1, 1)
    with pytest.raises(BadInput, match="1 of 1 traced steps lack some"):
        _read(made)


def test_no_timings_at_all() -> None:
    made = chain()
    with pytest.raises(BadInput, match="of the 0 timed operations"):
        _read(replace(made, timings=made.timings.clear()))
    with pytest.raises(BadInput, match="expected traced steps, found none"):
        _read(replace(made, steps=made.steps.clear()))


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        ((0, 9, 0, 1), "operation 9 .*: expected operations 0 to 6 of table operation"),
        ((7, 0, 0, 1), "step 7, .*: expected a traced step of table step"),
        ((0, 0, 0, -4), "duration_us -4.: expected a start, and a duration of 0 or more"),
    ],
)
def test_bad_timings(timing: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        _read(chain().with_timing(*timing))


def test_bad_operations() -> None:
    made = chain()
    unknown = made.operations.with_columns(resource=pl.lit("gpu"))
    with pytest.raises(BadInput, match="'ps0' uses resource 'gpu'; expected one of downlink"):
        _read(replace(made, operations=unknown))
    unsized = made.operations.with_columns(size_bytes=pl.lit(None, pl.Int64))
    with pytest.raises(BadInput, match="'downlink2' has size_bytes None; expected 0 or more"):
        _read(replace(made, operations=unsized))
    with pytest.raises(BadInput, match="expected indices 0 to n - 1, each once, found 6 rows"):
        _read(replace(made, operations=made.operations.tail(6)))


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        ((6, 0), "expected no cycle"),
        ((9, 0), "9 -> 0: expected operations 0 to 6"),
        ((0, 9), "'ps0' precedes operation 9; expected 0 to 6"),
    ],
)
def test_bad_edges(edge: tuple[int, int], message: str) -> None:
    made = chain()
    row = pl.DataFrame([("profile-1", *edge)], schema=made.edges.schema, orient="row")
    with pytest.raises(BadInput, match=message):
        _read(replace(made, edges=pl.concat([made.edges, row])))


def test_bad_overhead() -> None:
    made = chain()
    with pytest.raises(BadInput, match="parsing overhead must be 0 or more"):
        read_profile(made.operations, made.edges, made.timings, made.steps, overhead_s=-1.0)


def _read(made: Tables) -> Profile:
    return read_profile(made.operations, made.edges, made.timings, made.steps)
