"""Orders in which the parameters of a network can be sent to a worker that waits for them.

One function for the graph that trains and for the graph that was profiled, so that what is enforced
and what is predicted are the same order.
"""

import random
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from math import inf
from typing import Literal

EnforcedOrder = Literal["tic", "reverse", "random"]


def transfer_order(
    order: EnforcedOrder,
    predecessors: Sequence[Sequence[int]],
    transfers: Sequence[int],
    seed: int = 0,
) -> tuple[int, ...]:
    """Return transfers in the order in which they should be sent.

    Args:
        order: `tic`, the `reverse` of it, or a `random` permutation by `seed`.
        predecessors: for every operation, those it waits for; no cycles.
        transfers: operations that receive parameters.
        seed: of the random order.
    """
    if order == "random":
        shuffled = list(transfers)
        random.Random(seed).shuffle(shuffled)
        return tuple(shuffled)
    first = tic(predecessors, transfers)
    return first if order == "tic" else first[::-1]


def tic(predecessors: Sequence[Sequence[int]], transfers: Sequence[int]) -> tuple[int, ...]:
    """Return transfers in TicTac's timing-independent order (TIC).

    Every transfer takes one unit of time, every computation none. A computation that waits,
    directly or not, for n > 1 transfers can start n units after the first of them; a transfer is as
    urgent as the earliest computation that waits for it and for another one. Transfers that are
    equally urgent keep the order in which they are given; those no such computation waits for come
    last.

    Args:
        predecessors: for every operation, those it waits for; no cycles.
        transfers: operations that receive parameters.

    Source: Hashemi, Jyothi, Campbell, "TicTac: Accelerating Distributed Deep Learning with
    Communication Scheduling", MLSys 2019, section 4.2, algorithm 1.
    """
    urgency = [inf] * len(transfers)
    waited_for = _waited_for(predecessors, transfers)
    is_transfer = set(transfers)
    together = {waited_for[i] for i in range(len(predecessors)) if i not in is_transfer}
    for needed in sorted(together, key=int.bit_count, reverse=True):
        if needed.bit_count() > 1:
            for position in _bits(needed):
                urgency[position] = needed.bit_count()
    return tuple(transfers[i] for i in sorted(range(len(transfers)), key=urgency.__getitem__))


def _waited_for(predecessors: Sequence[Sequence[int]], transfers: Sequence[int]) -> list[int]:
    """Return, for every operation, the transfers up to it, as bits by position in `transfers`."""
    position = {operation: i for i, operation in enumerate(transfers)}
    found: list[int] = [0] * len(predecessors)
    for operation in TopologicalSorter(dict(enumerate(predecessors))).static_order():
        bits = 1 << position[operation] if operation in position else 0
        for predecessor in predecessors[operation]:
            bits |= found[predecessor]
        found[operation] = bits
    return found


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
