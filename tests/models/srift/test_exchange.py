"""Which transfers there are, and when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.srift.exchange import MIB, Buckets, power_of_two, transfers, wire_factor
from warehouse.records import BadInput


def test_transfers_are_in_the_order_of_gradients() -> None:
    found = transfers([10, 0, 30, 40], [1.0, 0.9, 0.5, 0.5], [1.0, 1.0, 0.5, 1.0])
    assert found.size_bytes.tolist() == [40, 30, 10]
    assert found.expected_bytes.tolist() == [40, 15, 10]
    assert found.ready.tolist() == [0.5, 0.5, 1.0]


def test_pytorch_s_buckets() -> None:
    """The first is full at 1 MiB, others at 25 MiB, each with the tensor that fills it."""
    sizes = [4 * MIB, 30 * MIB, 20 * MIB, 20 * MIB, MIB // 2, MIB // 2, MIB // 2]
    ready = [1.0, 0.9, 0.8, 0.7, 0.3, 0.2, 0.1]
    found = transfers(sizes, ready, buckets=Buckets())
    assert (found.size_bytes / MIB).tolist() == [1.0, 40.5, 30.0, 4.0]
    assert found.ready.tolist() == [0.2, 0.8, 0.9, 1.0]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1)), max_size=12),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_buckets_hold_all_gradients_and_wait_for_them(
    layers: list[tuple[int, float]], first_bytes: int, limit_bytes: int
) -> None:
    sizes, ready = [size for size, _ in layers], [at for _, at in layers]
    alone = transfers(sizes, ready)
    found = transfers(sizes, ready, buckets=Buckets(first_bytes=first_bytes, bytes=limit_bytes))
    assert found.size_bytes.sum() == sum(sizes)
    assert (np.diff(found.ready) >= 0).all()
    for i in range(len(found.ready)):
        # All that a bucket and those before it hold was there when it started.
        there = alone.size_bytes[alone.ready <= found.ready[i]].sum()
        assert found.size_bytes[: i + 1].sum() <= there


def test_sizes_are_rounded_up_to_powers_of_two() -> None:
    assert power_of_two(np.array([1, 2, 3, 4, 5, 1023, 1025])).tolist() == [
        1, 2, 4, 4, 8, 1024, 2048,
    ]  # fmt: skip


def test_what_crosses_an_interface() -> None:
    assert [wire_factor(n) for n in (1, 2, 4)] == [0, 1, 1.5]


def test_unequal_columns_are_refused() -> None:
    with pytest.raises(BadInput, match="2 layers have 1 times and 2 probabilities"):
        transfers([1, 2], [0.5])
