"""Orders in which a worker's transfers can be made to use a link, as ranks of operations."""

from models.async_sgd.graph import Resource
from models.async_sgd.trace import Profile
from networks.transfer_order import transfer_order
from warehouse.records import Order


def transfer_ranks(profile: Profile, order: Order, seed: int) -> tuple[int, ...] | None:
    """Return the rank of every operation in an enforced transfer order, None for `framework`.

    Only what the worker receives is ordered: all of it can be sent when a step starts. Gradients
    have equal ranks and go as they come.

    Source: Li et al., ICPE 2020, section 4.2 (figures 18 and 19).
    """
    if order == "framework":
        return None
    graph = profile.graph
    received = [i for i in profile.requested if graph.resources[i] is Resource.DOWNLINK]
    predecessors: list[list[int]] = [[] for _ in graph.names]
    for operation, targets in enumerate(graph.successors):
        for target in targets:
            predecessors[target].append(operation)
    ranks = [0] * len(graph.names)
    for rank, operation in enumerate(transfer_order(order, predecessors, received, seed)):
        ranks[operation] = rank
    return tuple(ranks)
