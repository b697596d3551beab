"""How well a mean is known."""

from collections.abc import Sequence
from math import inf, sqrt
from statistics import fmean, stdev

COVERAGE = 0.95


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95 % confidence interval of the mean, over that mean (Student's t).

    Infinity of a single value. Values count as independent: of one visit it is the scatter within
    that visit, and says nothing of how far another visit's mean is.
    """
    if len(values) < 2:
        return inf
    from scipy.stats import t  # takes a second to import, and few who import this measure

    quantile = float(t.ppf(0.5 + COVERAGE / 2, len(values) - 1))
    return quantile * stdev(values) / sqrt(len(values)) / fmean(values)
