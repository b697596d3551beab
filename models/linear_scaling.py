"""Linear scaling: each worker is as fast as it is alone, whatever others do.

Where workers do not wait for each other, their rates add up; where they do, the slowest decides.
The arithmetic of `linear`, of `ideal_scaling` and of linear scaling of what others measured.
"""

from collections.abc import Iterable

import polars as pl


def steps_per_s(workers: Iterable[tuple[int, float]]) -> float:
    """Return the steps of all workers per second: W workers do W times the steps of one.

    Args:
        workers: how many there are of each kind, and seconds that a step of one of them takes.
    """
    return sum(count / step_time_s for count, step_time_s in workers)


def step_time_s(alone_s: Iterable[float]) -> float:
    """Return seconds of a step for which all wait: those of the slowest alone.

    Args:
        alone_s: seconds that a step of each kind of worker takes; at least one.
    """
    return max(alone_s)


def of_one(rate: pl.Expr, workers: pl.Expr) -> pl.Expr:
    """Return the rate of one of so many workers, of which only the rate together is known."""
    return rate / workers


def of_all(rate: pl.Expr, workers: pl.Expr) -> pl.Expr:
    """Return the rate of so many workers, of which that of one is known."""
    return rate * workers
