import pytest

from models.async_sgd.trace import Profile
from models.async_sgd.transfer_order import transfer_ranks
from tests.models.async_sgd.frames import RECEIVE, UPLOAD, chain, profile
from warehouse.records import BadInput


def test_the_framework_s_order_is_not_enforced() -> None:
    assert transfer_ranks(_profile(), "framework", seed=0) is None


def test_reverse_sends_first_what_was_asked_for_last() -> None:
    made = _profile()
    assert made.requested == (RECEIVE, UPLOAD)
    ranks = transfer_ranks(made, "reverse", seed=0)
    assert ranks is not None
    assert len(ranks) == len(made.graph.names)
    assert ranks[UPLOAD] < ranks[RECEIVE]


def test_random_orders_differ_by_seed_alone() -> None:
    made = _profile()
    assert len({transfer_ranks(made, "random", seed=seed) for seed in range(20)}) == 2
    assert transfer_ranks(made, "random", 3) == transfer_ranks(made, "random", 3)


def test_tic_is_not_modelled_yet() -> None:
    with pytest.raises(BadInput, match="order 'tic' is not predicted yet"):
        transfer_ranks(_profile(), "tic", seed=0)


def _profile() -> Profile:
    return profile(chain())
