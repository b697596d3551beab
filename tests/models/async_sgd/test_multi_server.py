"""Two variables: 100 bytes that the worker downloads and sends gradients for, and 30."""

from statistics import fmean

import polars as pl
import pytest

from models.async_sgd.graph import Resource
from models.async_sgd.profiles import place_on_servers, tracer_excess_s, untraced_s, without_tracer
from models.async_sgd.trace import Profile
from tests.models.async_sgd.frames import CHAIN_STEP, COMPUTE, Tables, chain, profile, tables
from warehouse.records import Placement

OPERATIONS: list[tuple[str, int | None]] = [
    ("ps", None),  # 0 small variable
    ("ps", None),  # 1 large variable
    ("ps", None),  # 2 read small
    ("ps", None),  # 3 read large
    ("downlink", 30),  # 4
    ("downlink", 100),  # 5
    ("worker", None),  # 6
    ("uplink", 30),  # 7 gradient of small
    ("uplink", 100),  # 8 gradient of large
    ("uplink", 4),  # 9 learning rate, for both
    ("ps", None),  # 10 apply small
    ("ps", None),  # 11 apply large
    ("ps", None),  # 12 both are done
    ("ps", None),  # 13 a constant that applying large needs
]
EDGES = [
    *[(0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6), (6, 7), (6, 8), (0, 10), (1, 11)],
    *[(7, 10), (8, 11), (9, 10), (9, 11), (10, 12), (11, 12), (13, 11)],
]
SMALL, LARGE, BOTH = {0, 2, 4, 7, 10}, {1, 3, 5, 8, 11, 13}, {9, 12}
MADE = tables(OPERATIONS, EDGES, [{i: (i, 1) for i in range(len(OPERATIONS))}])
TABLE = MADE.operations.with_columns(
    type=pl.when(pl.col("operation") < 2).then(pl.lit("VariableV2")).otherwise(pl.lit("Any"))
)


def on(placed: Profile, operations: set[int]) -> set[int]:
    """Return the servers of operations, and of the parsing of those that are uplinks."""
    graph = placed.graph
    names = {graph.names[i] for i in operations}
    names |= {f"{name}/parsing" for name in names if name.startswith("uplink")}
    return {s for name, s in zip(graph.names, graph.servers, strict=True) if name in names}


@pytest.mark.parametrize(("placement", "large"), [("round_robin", 1), ("greedy", 1)])
def test_what_belongs_to_a_variable_goes_with_it(placement: Placement, large: int) -> None:
    placed = place_on_servers(profile(MADE), TABLE, 2, placement)
    assert on(placed, SMALL) == {1 - large}
    assert on(placed, LARGE) == {large}
    assert on(placed, BOTH) == {0}
    assert placed.steps == profile(MADE).steps
    assert placed.requested == profile(MADE).requested


def test_greedy_counts_bytes() -> None:
    """A third variable of 10 bytes joins the 30, and the fourth, of 50, too."""
    sizes = [30, 100, 10, 50]
    made = tables(
        [*[("ps", None)] * 4, *[("downlink", size) for size in sizes]],
        [(i, i + 4) for i in range(4)],
        [{i: (i, 1) for i in range(8)}],
    )
    table = made.operations.with_columns(
        type=pl.when(pl.col("resource") == "ps").then(pl.lit("VarHandleOp")).otherwise(pl.lit("_"))
    )
    greedy = place_on_servers(profile(made), table, 2, "greedy").graph.servers
    assert greedy[:8] == (0, 1, 0, 0) * 2
    in_turn = place_on_servers(profile(made), table, 3, "round_robin").graph.servers
    assert in_turn[:8] == (0, 1, 2, 0) * 2


WORK_S = 0.357


def worker_work_s(made: Profile) -> list[float]:
    resources = made.graph.resources
    return [
        sum(s for s, r in zip(step.seconds, resources, strict=True) if r is Resource.WORKER)
        for step in made.steps
    ]


def unequal() -> Tables:
    """Return two steps whose worker computes 307 and 407 ms, and nothing after it."""
    longer = {**CHAIN_STEP, COMPUTE: (260_000, 400_000)}
    steps = [{i: step[i] for i in (0, 2, COMPUTE)} for step in (CHAIN_STEP, longer)]
    resources = [("ps", None), ("ps", None), ("downlink", 20_000), ("worker", None)]
    return tables([*resources, ("worker", None)], [(i, i + 1) for i in range(4)], steps)


def test_what_tracing_adds() -> None:
    """Until the last operation, at 700 ms: what the client does after that is not the tracer's."""
    made = chain(untraced_us=[640_000, 660_000])
    assert tracer_excess_s(made.timings, made.steps) == pytest.approx(0.05)


def test_untraced_steps_tell_how_long_operations_take() -> None:
    made = chain(untraced_us=[640_000, 660_000])
    assert untraced_s(made.timings, made.steps) == pytest.approx(0.65)
    made = chain(untraced_us=[780_000])
    assert untraced_s(made.timings, made.steps) == pytest.approx(0.7)
    made = chain(untraced_us=[])
    assert untraced_s(made.timings, made.steps) is None


def all_work_s(made: Profile) -> float:
    """Return the mean work of the worker, as if nothing overlapped and nothing else took time."""
    return fmean(worker_work_s(made))


def test_every_computation_loses_the_same_part() -> None:
    """Of 357 and 457 ms of work 40 ms go on average: every computation loses 40 / 407 of it."""
    made = profile(unequal())
    assert worker_work_s(made) == pytest.approx([0.357, 0.457])
    less = worker_work_s(without_tracer(made, 0.367, all_work_s))
    assert less == pytest.approx([0.357 * 367 / 407, 0.457 * 367 / 407], rel=1e-4)


def test_servers_transfers_and_the_order_of_things_stay() -> None:
    before = profile(chain())
    after = without_tracer(before, WORK_S - 0.1, all_work_s)
    assert (after.graph, after.requested) == (before.graph, before.requested)
    for old, new in zip(before.steps, after.steps, strict=True):
        assert (new.order, new.release_s) == (old.order, old.release_s)
        for i, resource in enumerate(before.graph.resources):
            assert (new.seconds[i] == old.seconds[i]) == (
                resource is not Resource.WORKER or old.seconds[i] == 0
            )
