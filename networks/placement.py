"""How the variables of a network are divided among parameter servers.

One function for the graph that trains and for the graph that is predicted.
"""

from collections.abc import Sequence
from typing import Literal

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
