"""The worked example of Figure 12, and what it looks like when windows are opened early."""

from collections.abc import Sequence
from itertools import combinations, pairwise

import polars as pl
import pytest

from models.async_sgd.http2 import behaviour, enforced_pairs, kept_order
from networks.variables import EnforcedOrder, transfer_order
from tests.models.async_sgd.captures import frames, served
from tests.models.async_sgd.frames import Tables, tables

WINDOW = ("worker", "SETTINGS", 0, 0, 6, 3)


def sent(stream: int, time_us: int, length: int) -> tuple[str, str, int, int, int, None]:
    return ("server", "DATA", stream, time_us, length, None)


def test_a_long_stream_is_suspended_once_at_the_window() -> None:
    """WIN = 3: stream 1 (5 bytes) lets 3 (2 bytes) pass; behind the last (4 bytes) nobody waits."""
    rows = served((1, 5, 0, 10, 17), (3, 2, 0, 13, 15), (5, 4, 20, 20, 24), segments=[2, 1, 1])
    seen = frames(WINDOW, sent(1, 10, 3), sent(3, 13, 2), sent(1, 15, 2), sent(5, 20, 4))
    summary = behaviour(rows, seen, "downlink")
    assert (summary.window_bytes, summary.streams, summary.suspended) == (3, 3, 1)
    assert (summary.longer, summary.longer_with_others_waiting) == (2, 1)
    assert summary.first_service_bytes == 3
    assert (summary.rule_holds, summary.rule_holds_longer) == (1, 1)
    assert summary.most_open == 2


def test_windows_that_are_opened_early_suspend_nothing() -> None:
    rows = served((1, 5, 0, 10, 15), (3, 2, 0, 15, 17))
    seen = frames(WINDOW, sent(1, 10, 2), sent(1, 13, 3), sent(3, 15, 2))
    summary = behaviour(rows, seen, "downlink")
    assert (summary.suspended, summary.first_service_bytes) == (0, None)
    assert (summary.rule_holds, summary.rule_holds_longer) == (0.5, 0)


def test_a_stream_is_judged_by_the_window_at_its_first_packet() -> None:
    """WIN is 3 for the first stream and 7 for the second; what the sender announces is not WIN."""
    rows = served((1, 5, 0, 10, 15), (3, 5, 0, 20, 25))
    seen = frames(
        WINDOW,
        ("server", "SETTINGS", 0, 5, 6, 1),
        sent(1, 10, 5),
        ("worker", "SETTINGS", 0, 12, 6, 7),
        sent(3, 20, 5),
    )
    summary = behaviour(rows, seen, "downlink")
    assert (summary.first_window_bytes, summary.window_bytes, summary.longer) == (3, 7, 1)


def test_order_of_service() -> None:
    """Asked for as 1, 3, 5, 7; ready as 3, 1, 5, 7; served as 3, 1, 7, 5."""
    rows = served((1, 1, 4, 20, 21), (3, 1, 2, 10, 11), (5, 1, 6, 40, 41), (7, 1, 8, 30, 31))
    summary = behaviour(rows, frames(), "downlink")
    assert summary.in_order_of_requests == pytest.approx(1 / 3)
    assert summary.in_order_of_starts == pytest.approx(2 / 3)
    assert summary.window_bytes is None


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
    reads = [READS[RECEIVED.index(operation)] for operation in chain]
    edges = [*EDGES, *pairwise(reads)]
    return tables(operations, edges, [{i: (i, 1) for i in range(len(operations))}])


def pairs(chain: Sequence[int] = ()) -> set[tuple[int, int]]:
    tables = made(chain)
    return set(enforced_pairs(tables.operations, tables.edges))


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
    tables = made(chain=[FIRST, SECOND, LONE])
    on_two = tables.operations.with_columns(
        server=pl.when(pl.col("operation") == LONE).then(1).otherwise(0).cast(pl.Int16)
    )
    assert enforced_pairs(on_two, tables.edges) == [(FIRST, SECOND)]


def test_shares_count_first_packets() -> None:
    """Enforced 8, 7, 6; asked for as 6, 7, 8; sent as 8, 6, 7: two of three and one of three."""
    tables = made(chain=[8, 7, 6])
    seen = kept_order(transfers(8, 6, 7), tables.operations, tables.edges, "random")
    assert (seen.order, seen.steps, seen.pairs) == ("random", 1, 3)
    assert seen.kept == pytest.approx(2 / 3)
    assert seen.as_requested == pytest.approx(1 / 3)


def test_nothing_enforced_and_nothing_captured_is_no_figure() -> None:
    tables = made()
    free = kept_order(transfers(6, 7, 8), tables.operations, tables.edges, "framework")
    assert (free.pairs, free.kept, free.as_requested) == (0, None, 1)
    nothing = kept_order(transfers(6, 7, 8).clear(), tables.operations, tables.edges, "tic")
    assert (nothing.steps, nothing.kept, nothing.as_requested) == (0, None, None)


def test_control_edges_have_no_place_in_the_order() -> None:
    tables = made(chain=[8, 7, 6])
    empty = transfers(8, 6, 7).with_columns(size_bytes=pl.lit(0, pl.Int64))
    assert kept_order(empty, tables.operations, tables.edges, "tic").pairs == 0
