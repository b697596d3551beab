import pytest

from models.async_sgd.trace import Profile, transfer_ranks
from tests.models.async_sgd.frames import profile, tables
from warehouse.records import Order

LONE, FIRST, SECOND, TOGETHER, GRADIENT = range(5)


def test_the_framework_s_order_is_not_enforced() -> None:
    assert transfer_ranks(_profile(), "framework", seed=0) is None


@pytest.mark.parametrize(
    ("order", "expected"), [("tic", [FIRST, SECOND, LONE]), ("reverse", [LONE, SECOND, FIRST])]
)
def test_what_is_needed_with_others_comes_first_or_last(order: Order, expected: list[int]) -> None:
    ranks = transfer_ranks(_profile(), order, seed=0)
    assert ranks is not None
    assert sorted([LONE, FIRST, SECOND], key=ranks.__getitem__) == expected


def test_gradients_go_as_they_come() -> None:
    ranks = transfer_ranks(_profile(), "tic", seed=0)
    assert ranks is not None
    assert len(ranks) == len(_profile().graph.names)
    assert ranks[GRADIENT] == 0


def test_random_orders_differ_by_seed_alone() -> None:
    made = _profile()
    assert len({transfer_ranks(made, "random", seed=seed) for seed in range(60)}) == 6
    assert transfer_ranks(made, "random", 3) == transfer_ranks(made, "random", 3)


def _profile() -> Profile:
    operations = [
        ("downlink", 8),
        ("downlink", 8),
        ("downlink", 8),
        ("worker", None),
        ("uplink", 8),
    ]
    edges = [(FIRST, TOGETHER), (SECOND, TOGETHER), (TOGETHER, GRADIENT)]
    return profile(tables(operations, edges, [{i: (i, 1) for i in range(5)}]))
