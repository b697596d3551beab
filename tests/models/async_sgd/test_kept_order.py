"""Three parameters of one server; two of them are needed together, one alone."""

from collections.abc import Sequence
from itertools import combinations, pairwise

import polars as pl
import pytest

from models.async_sgd.http2 import enforced_pairs, kept_order
from networks.variables import EnforcedOrder, transfer_order
from tests.models.async_sgd.captures import served
from tests.models.async_sgd.frames import Tables, tables

READS, SENDS, RECEIVED = (0, 1, 2), (3, 4, 5), (6, 7, 8)
LONE, FIRST, SECOND = RECEIVED
ALONE, TOGETHER = 9, 10
EDGES = [
    *zip(READS, SENDS, strict=True),
    *zip(SENDS, RECEIVED, strict=True),
    *[(LONE, ALONE), (FIRST, TOGETHER), (SECOND, TOGETHER)],
]


def made(chain: Sequence[int] = ()) -> Tables:
    """Return the tables, with control edges between the reads of these transfers in turn."""
    operations: list[tuple[str, int | None]] = [
        *[("ps", None)] * 6,
        *[("downlink", 8)] * 3,
        *[("worker", None)] * 2,
    ]
    reads = [READS[RECEIVED.index(one)] for one in chain]
    edges = [*EDGES, *pairwise(reads)]
    return tables(operations, edges, [{i: (i, 1) for i in range(len(operations))}])


def pairs(chain: Sequence[int] = ()) -> set[tuple[int, int]]:
    found = made(chain)
    return set(enforced_pairs(found.operations, found.edges))


def transfers(*order: int) -> pl.DataFrame:
    """Return captured transfers whose first packets came in this order, asked for by number."""
    rows = [(i, 8, 0, 10 * order.index(i), 10 * order.index(i) + 9) for i in RECEIVED]
    return served(*rows)


def test_reads_that_are_chained_tell_the_order() -> None:
    assert pairs(chain=[SECOND, LONE, FIRST]) == {
        (SECOND, LONE),
        (SECOND, FIRST),
        (LONE, FIRST),
    }
    assert pairs() == set()


@pytest.mark.parametrize("order", ["tic", "reverse", "random"])
def test_a_chain_in_a_given_order_is_found_again(order: EnforcedOrder) -> None:
    predecessors: list[list[int]] = [[] for _ in range(11)]
    for source, target in EDGES:
        predecessors[target].append(source)
    given = transfer_order(order, predecessors, RECEIVED)
    assert pairs(chain=given) == set(combinations(given, 2))


def test_servers_have_orders_of_their_own() -> None:
    found = made(chain=[FIRST, SECOND, LONE])
    on_two = found.operations.with_columns(
        server=pl.when(pl.col("operation") == LONE).then(1).otherwise(0).cast(pl.Int16)
    )
    assert enforced_pairs(on_two, found.edges) == [(FIRST, SECOND)]


def test_shares_count_first_packets() -> None:
    """Enforced 8, 7, 6; asked for as 6, 7, 8; sent as 8, 6, 7: two of three and one of three."""
    found = made(chain=[8, 7, 6])
    seen = kept_order(transfers(8, 6, 7), found.operations, found.edges, "random")
    assert (seen.order, seen.steps, seen.pairs) == ("random", 1, 3)
    assert seen.kept == pytest.approx(2 / 3)
    assert seen.as_requested == pytest.approx(1 / 3)


def test_nothing_enforced_and_nothing_captured_is_no_figure() -> None:
    found = made()
    free = kept_order(transfers(6, 7, 8), found.operations, found.edges, "framework")
    assert (free.pairs, free.kept, free.as_requested) == (0, None, 1)
    nothing = kept_order(transfers(6, 7, 8).clear(), found.operations, found.edges, "tic")
    assert (nothing.steps, nothing.kept, nothing.as_requested) == (0, None, None)


def test_control_edges_have_no_place_in_the_order() -> None:
    found = made(chain=[8, 7, 6])
    empty = transfers(8, 6, 7).with_columns(size_bytes=pl.lit(0, pl.Int64))
    assert kept_order(empty, found.operations, found.edges, "tic").pairs == 0
