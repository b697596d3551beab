"""TIC on graphs small enough to work out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from networks.variables import tic, transfer_order


def test_a_chain_of_layers_receives_them_in_their_order() -> None:
    """Layer k computes when weights 1 to k are there: w3, w2, w1 were asked for; w1 has no rival.

    Computation 3 needs {w1}, 4 needs {w1, w2}, 5 all three: w1 and w2 are urgent at 2, w3 at 3.
    """
    predecessors = [[], [], [], [2], [3, 1], [4, 0]]
    assert tic(predecessors, [0, 1, 2]) == (1, 2, 0)


def test_the_shorter_branch_goes_first() -> None:
    """Left joins a and b (2 transfers), right joins c, d and e (3), then both join (5)."""
    predecessors = [[], [], [], [], [], [0, 1, 2], [3, 4], [5, 6]]
    assert tic(predecessors, [0, 1, 2, 3, 4]) == (3, 4, 0, 1, 2)


def test_a_transfer_behind_a_transfer_counts_both() -> None:
    predecessors = [[], [0], [], [], [1], [2, 3]]
    assert tic(predecessors, [0, 1, 2, 3]) == (0, 1, 2, 3)
    assert tic(predecessors, [2, 3, 0, 1]) == (2, 3, 0, 1)


def test_what_no_two_transfers_wait_for_comes_last() -> None:
    predecessors = [[], [], [], [0], [1, 2]]
    assert tic(predecessors, [0, 1, 2]) == (1, 2, 0)


def test_reverse_is_the_reverse_of_tic() -> None:
    predecessors = [[], [], [], [], [], [0, 1, 2], [3, 4], [5, 6]]
    assert transfer_order("reverse", predecessors, [0, 1, 2, 3, 4]) == (2, 1, 0, 4, 3)


@given(st.data(), st.sampled_from(["tic", "reverse", "random"]))
def test_every_order_is_a_permutation(data: st.DataObject, order: str) -> None:
    count = data.draw(st.integers(1, 12))
    predecessors = [
        data.draw(st.lists(st.integers(0, i - 1), unique=True, max_size=4)) if i else []
        for i in range(count)
    ]
    transfers = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    ordered = transfer_order(order, predecessors, transfers, seed=1)  # type: ignore[arg-type]
    assert sorted(ordered) == sorted(transfers)


@pytest.mark.parametrize("order", ["tic", "reverse", "random"])
def test_nothing_to_send(order: str) -> None:
    assert transfer_order(order, [[]], []) == ()  # type: ignore[arg-type]
