"""Orders in which a worker's transfers can be made to use a link, as ranks of operations."""

import random

from models.async_sgd.trace import Profile
from warehouse.records import BadInput, Order


def transfer_ranks(profile: Profile, order: Order, seed: int) -> tuple[int, ...] | None:
    """Return the rank of every operation in an enforced transfer order, None for `framework`.

    `reverse` sends what the framework asked for last first; `random` is a permutation by seed.

    Raises:
        BadInput: `tic`, which is not modelled yet.
    """
    if order == "framework":
        return None
    if order == "tic":
        raise BadInput("order 'tic' is not predicted yet; use framework, reverse or random")
    first = list(reversed(profile.requested))
    if order == "random":
        random.Random(seed).shuffle(first)
    ranks = [0] * len(profile.graph.names)
    for rank, operation in enumerate(first):
        ranks[operation] = rank
    return tuple(ranks)
