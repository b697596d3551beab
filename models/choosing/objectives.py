"""What a user wants of time and cost."""

from collections.abc import Callable, Mapping
from typing import Literal

Objective = Literal["time", "cost"]


def fastest(time: float, cost: float) -> float:
    """Return the time: the objective of whoever is in a hurry."""
    return time


def cheapest(time: float, cost: float) -> float:
    """Return the cost: the objective of whoever can wait."""
    return cost


VALUES: Mapping[Objective, Callable[[float, float], float]] = {"time": fastest, "cost": cheapest}
"""What is minimised, of time and cost in any unit."""


def preferred(objective: Objective, time: float, cost: float) -> tuple[float, float]:
    """Return what is compared, the least is best: the objective, and the other one of equals."""
    return (time, cost) if objective == "time" else (cost, time)
