"""What more money buys: the options than which none is both faster and cheaper."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def pareto_front(options: Iterable[T], key: Callable[[T], tuple[float, ...]]) -> list[T]:
    """Return the Pareto front of time against cost, fastest first, cheapest last.

    Args:
        options: what there is, in any order.
        key: time and cost of an option in any unit, then what decides between equals: the least.
    """
    front: list[T] = []
    least = None
    for option in sorted(options, key=key):
        cost = key(option)[1]
        if least is None or cost < least:
            front.append(option)
            least = cost
    return front
