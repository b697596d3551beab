"""Variables of a network: how servers divide them, and in which order they can be sent."""

from collections.abc import Sequence
from graphlib import TopologicalSorter
from math import inf
from typing import Literal

# How the variables of a network are divided among parameter servers.
#
# One function for the graph that trains and for the graph that is predicted.


Placement = Literal["round_robin", "greedy"]


def place(sizes_bytes: Sequence[int], servers: int, placement: Placement) -> tuple[int, ...]:
    """Return the server of each variable.

    `round_robin` takes servers in turn, as TensorFlow's `replica_device_setter` does. `greedy`
    takes the server that holds fewest bytes so far, the first of equals.

    Args:
        sizes_bytes: of the variables, in the order in which they are created.
        servers: how many there are.
        placement: which rule.

    Source: Li et al., ICPE 2020, section 5 and Fig. 23 (greedy).
    """
    if placement == "round_robin":
        return tuple(i % servers for i in range(len(sizes_bytes)))
    greedy = Greedy(servers)
    return tuple(greedy.put(size_bytes) for size_bytes in sizes_bytes)


class Greedy:
    """Puts each variable on the server that holds fewest bytes so far, the first of equals."""

    def __init__(self, servers: int) -> None:
        self._held_bytes = [0] * servers

    def put(self, size_bytes: int) -> int:
        """Return the server of the next variable."""
        server = self._held_bytes.index(min(self._held_bytes))
        self._held_bytes[server] += size_bytes
        return server


# The order in which the parameters of a network can be sent to a worker that waits for them.
#
# One function for the graph that trains and for the graph that was profiled, so that what is
# enforced and what is predicted are the same order.


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
            for position in range(len(transfers)):
                if needed >> position & 1:
                    urgency[position] = needed.bit_count()
    return tuple(transfers[i] for i in sorted(range(len(transfers)), key=urgency.__getitem__))


def _waited_for(predecessors: Sequence[Sequence[int]], transfers: Sequence[int]) -> list[int]:
    """Return, for every operation, the transfers up to it, as bits by position in `transfers`."""
    position = {operation: i for i, operation in enumerate(transfers)}
    waits: list[int] = [0] * len(predecessors)
    for operation in TopologicalSorter(dict(enumerate(predecessors))).static_order():
        bits = 1 << position[operation] if operation in position else 0
        for predecessor in predecessors[operation]:
            bits |= waits[predecessor]
        waits[operation] = bits
    return waits
