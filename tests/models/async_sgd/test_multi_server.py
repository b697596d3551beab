"""Two variables: 100 bytes that the worker downloads and sends gradients for, and 30."""

import polars as pl
import pytest

from models.async_sgd.profiles import place_on_servers, scenario_on_servers, variable_bytes
from models.async_sgd.trace import Profile
from tests.models.async_sgd.frames import profile, tables
from tests.models.runs import scenario
from warehouse.records import BadInput, Placement

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


def on(found: Profile, operations: set[int]) -> set[int]:
    """Return the servers of operations, and of the parsing of those that are uplinks."""
    graph = found.graph
    names = {graph.names[i] for i in operations}
    names |= {f"{name}/parsing" for name in names if name.startswith("uplink")}
    return {s for name, s in zip(graph.names, graph.servers, strict=True) if name in names}


@pytest.mark.parametrize(("placement", "large"), [("round_robin", 1), ("greedy", 1)])
def test_what_belongs_to_a_variable_goes_with_it(placement: Placement, large: int) -> None:
    found = place_on_servers(profile(MADE), TABLE, 2, placement)
    assert on(found, SMALL) == {1 - large}
    assert on(found, LARGE) == {large}
    assert on(found, BOTH) == {0}
    assert found.steps == profile(MADE).steps
    assert found.requested == profile(MADE).requested


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


def test_a_variable_counts_its_largest_transfer() -> None:
    assert variable_bytes(profile(MADE), TABLE) == (30, 100)


def test_one_server_changes_nothing() -> None:
    assert place_on_servers(profile(MADE), TABLE, 1, "greedy") == profile(MADE)


def test_what_cannot_be_placed() -> None:
    with pytest.raises(BadInput, match=r"expected operations of type Variable, .* found none"):
        place_on_servers(profile(MADE), MADE.operations, 2, "greedy")
    several = place_on_servers(profile(MADE), TABLE, 2, "greedy")
    with pytest.raises(BadInput, match="expected a profile of 1 server, found 2"):
        place_on_servers(several, TABLE, 2, "greedy")


def test_the_scenario_on_several_servers() -> None:
    assert scenario_on_servers(scenario(3), 2, "greedy") == scenario(
        3, servers=2, placement="greedy"
    )
